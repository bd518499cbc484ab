// Time ranges: how long they are, and which span they show.

import type { Span } from "../feed/history";
import { formatMoment, parseMoment } from "./route";

export const RANGES = ["1h", "6h", "24h", "7d", "30d"] as const;
export type Range = (typeof RANGES)[number];

const HOUR = 3600;
const DAY = 86_400;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
const SECONDS: Record<Range, number> = { "1h": HOUR, "6h": 6 * HOUR, "24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY };
const STEPS: Record<Range, number> = { "1h": 60, "6h": 300, "24h": 600, "7d": HOUR, "30d": 6 * HOUR };
const CONTEXT: Record<Range, number> = { "1h": DAY, "6h": 2 * DAY, "24h": 7 * DAY, "7d": 30 * DAY, "30d": 90 * DAY };

/** Parse a range; `fallback` if it is none of `among`. */
export function parseRange(text: string, fallback: Range, among: readonly Range[] = RANGES): Range {
  return among.find((each) => each === text) ?? fallback;
}

export function rangeSeconds(range: Range): number {
  return SECONDS[range];
}

/** The step of the slider and of playing, in seconds. */
export function stepSeconds(range: Range): number {
  return STEPS[range];
}

/** How much the ribbon above a range shows, in seconds. */
export function contextSeconds(range: Range): number {
  return CONTEXT[range];
}

/** Parse first and last day: "2026-11-01..2026-11-08"; `null` if it is not of this form. */
export function parseDays(text: string): [first: string, last: string] | null {
  const [first = "", last = ""] = text.split("..");
  return DATE.test(first) && DATE.test(last) && first <= last ? [first, last] : null;
}

export function formatDays(first: string, last: string): string {
  return `${first}..${last}`;
}

/** The span of these days, both included, in the browser's time zone; at most until now. */
export function spanOfDays([first, last]: readonly [string, string], now: number): Span {
  const after = new Date(`${last}T00:00`);
  after.setDate(after.getDate() + 1);
  const start = new Date(`${first}T00:00`).getTime() / 1000;
  return { start, end: Math.max(start + HOUR, Math.min(now, after.getTime() / 1000)) };
}

/** A zoomed span as text: "2026-11-15T03:00Z..2026-11-15T03:10Z". */
export function formatZoom({ start, end }: Span): string {
  return `${formatMoment(Math.floor(start))}..${formatMoment(Math.ceil(end))}`;
}

/** Parse a zoomed span; `null` if the text is none. */
export function parseZoom(text: string): Span | null {
  const [start, end] = text.split("..").map(parseMoment);
  return start != null && end != null && start < end ? { start, end } : null;
}

export function spanEndingAt(end: number, seconds: number): Span {
  return { start: end - seconds, end };
}

/**
 * The span to show: up to now if the moment is in it, otherwise around the moment.
 * It stays the same while the moment is inside, so that stepping does not move it.
 */
export function visibleSpan(moment: number | null, now: number, seconds: number, before: Span | null): Span {
  const live = spanEndingAt(now, seconds);
  if (moment === null || moment >= live.start) return live;
  const canStay = before !== null && before.end - before.start === seconds && before.end < now;
  if (canStay && moment >= before.start && moment <= before.end) return before;
  return spanEndingAt(Math.min(now, moment + seconds / 2), seconds);
}

/** Cut off what is older than the history; an hour always stays. */
export function clampToHistory({ start, end }: Span, oldest: number | null): Span {
  return { start: Math.max(start, Math.min(oldest ?? start, end - HOUR)), end };
}

/** Move a moment by some steps, rounded to whole steps; `null` is now. */
export function stepMoment(moment: number | null, steps: number, stepSeconds: number, now: number): number | null {
  const from = moment ?? now;
  const at = (steps > 0 ? Math.floor : Math.ceil)(from / stepSeconds) * stepSeconds + steps * stepSeconds;
  return at >= now ? null : at;
}
