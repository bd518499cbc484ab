// Bars of a Gantt chart: position and colour of a job.

import type { Span } from "../feed/history";
import type { Job, Sums } from "../feed/types";
import { percentOfSpan } from "./ticks";
import { busyShare } from "./usage";

export interface Bar {
  readonly left: number;
  readonly width: number;
  /** Whether it extends beyond the shown span. */
  readonly earlier: boolean;
  readonly later: boolean;
}

const IDLE_SHARE = 0.5;

/** The bar of a job; `end` is `null` while it runs. */
export function barOf(start: number, end: number | null, span: Span): Bar {
  const left = percentOfSpan(span, start);
  return { left, width: percentOfSpan(span, end ?? span.end) - left, earlier: start < span.start, later: end === null || end > span.end };
}

/** Running jobs first, then the most recent. */
export function newestFirst(jobs: readonly Job[]): Job[] {
  return [...jobs].sort((a, b) => Number(b.end === null) - Number(a.end === null) || b.start - a.start);
}

/** The colour of a job: by load, or as held if it was mostly idle. */
export function barStyle(sums: Sums): { state: "busy" | "held"; busyPercent: number | null } {
  const share = busyShare(sums);
  const idle = sums.gpu_seconds > 0 && sums.idle_seconds / sums.gpu_seconds > IDLE_SHARE;
  return { state: idle ? "held" : "busy", busyPercent: share === null ? null : 100 * share };
}
