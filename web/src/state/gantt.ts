// Jobs as bars over time: where each begins and ends within what is shown.

import type { Job, Span, Sums } from "../feed/history";
import { busyShare } from "./usage";
import { percentAlong } from "./ticks";

export interface Bar {
  readonly left: number;
  readonly width: number;
  /** Whether it goes on beyond what is shown, on either side. */
  readonly earlier: boolean;
  readonly later: boolean;
}

const MOSTLY = 0.5;

/** A bar from `start` to `end`, `null` being a job that still runs. */
export function barOf(start: number, end: number | null, span: Span): Bar {
  const left = percentAlong(span, start);
  return { left, width: percentAlong(span, end ?? span.end) - left, earlier: start < span.start, later: end === null || end > span.end };
}

/** Those that still run first, then the newest. */
export function newestFirst(jobs: readonly Job[]): Job[] {
  return [...jobs].sort((a, b) => Number(b.end === null) - Number(a.end === null) || b.start - a.start);
}

/** How a job is coloured: by how hard it worked, or as held where it mostly did nothing. */
export function lookOf(sums: Sums): { state: "busy" | "held"; busyPercent: number | null } {
  const share = busyShare(sums);
  const idle = sums.gpu_seconds > 0 && sums.idle_seconds / sums.gpu_seconds > MOSTLY;
  return { state: idle ? "held" : "busy", busyPercent: share === null ? null : 100 * share };
}
