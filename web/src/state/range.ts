// How long a look back is, and which stretch of time it shows.

import type { Span } from "../feed/history";

export const RANGES = ["1h", "6h", "24h", "7d", "30d"] as const;
export type Range = (typeof RANGES)[number];

const HOUR = 3600;
const DAY = 86_400;
const DATE = /^\d{4}-\d{2}-\d{2}$/;
const SECONDS: Record<Range, number> = { "1h": HOUR, "6h": 6 * HOUR, "24h": DAY, "7d": 7 * DAY, "30d": 30 * DAY };
/** What one step of the slider, or of playing, is. */
const STEPS: Record<Range, number> = { "1h": 60, "6h": 300, "24h": 600, "7d": HOUR, "30d": 6 * HOUR };
/** What lies around a range: the ribbon above it shows so much. */
const AROUND: Record<Range, number> = { "1h": DAY, "6h": 2 * DAY, "24h": 7 * DAY, "7d": 30 * DAY, "30d": 90 * DAY };

/** The range that the text means, or else the usual one. */
export function rangeOf(text: string, usual: Range, among: readonly Range[] = RANGES): Range {
  return among.find((each) => each === text) ?? usual;
}

export function secondsOf(range: Range): number {
  return SECONDS[range];
}

export function stepOf(range: Range): number {
  return STEPS[range];
}

export function aroundOf(range: Range): number {
  return AROUND[range];
}

/** The first and the last day of a range of days: "2026-11-01..2026-11-08"; `null` for any other text. */
export function daysOf(text: string): [first: string, last: string] | null {
  const [first = "", last = ""] = text.split("..");
  return DATE.test(first) && DATE.test(last) && first <= last ? [first, last] : null;
}

export function daysText(first: string, last: string): string {
  return `${first}..${last}`;
}

/** These days, both included, by the reader's own clock; not beyond now. */
export function spanOfDays([first, last]: readonly [string, string], now: number): Span {
  const after = new Date(`${last}T00:00`);
  after.setDate(after.getDate() + 1);
  const start = new Date(`${first}T00:00`).getTime() / 1000;
  return { start, end: Math.max(start + HOUR, Math.min(now, after.getTime() / 1000)) };
}

/** The stretch that ends then. */
export function until(end: number, seconds: number): Span {
  return { start: end - seconds, end };
}

/**
 * The stretch to show: up to now while the moment is in that; else around the moment.
 * It stays as it was for as long as the moment is within it, so that stepping does not move it.
 */
export function around(moment: number | null, now: number, seconds: number, before: Span | null): Span {
  const live = until(now, seconds);
  if (moment === null || moment >= live.start) return live;
  const stays = before !== null && before.end - before.start === seconds && before.end < now;
  if (stays && moment >= before.start && moment <= before.end) return before;
  return until(Math.min(now, moment + seconds / 2), seconds);
}

/** A stretch without what is older than all that is kept; an hour of it stays in any case. */
export function sinceOldest({ start, end }: Span, oldest: number | null): Span {
  return { start: Math.max(start, Math.min(oldest ?? start, end - HOUR)), end };
}

/** A moment one or more steps on, on whole steps; `null` is now. */
export function stepped(moment: number | null, steps: number, stepSeconds: number, now: number): number | null {
  const from = moment ?? now;
  const at = (steps > 0 ? Math.floor : Math.ceil)(from / stepSeconds) * stepSeconds + steps * stepSeconds;
  return at >= now ? null : at;
}
