// Ticks of a time axis: round times in the browser's time zone.

import type { Span } from "../feed/history";

const MINUTE = 60;
const HOUR = 3600;
export const DAY_SECONDS = 86_400;
const STEPS = [MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR];
const DAYS = [1, 2, 7, 14, 28];

export interface Ticks {
  readonly at: readonly number[];
  /** Whether the ticks are days. */
  readonly days: boolean;
}

/** At most `max` ticks. */
export function ticks({ start, end }: Span, max: number): Ticks {
  const step = STEPS.find((each) => (end - start) / each <= max);
  return step ? { at: within(start, end, step), days: false } : { at: midnights(start, end, max), days: true };
}

function within(start: number, end: number, step: number): number[] {
  const found: number[] = [];
  // Counted from midnight, so that a step of two hours gives 00:00, 02:00 … in any time zone.
  if (step <= HOUR) {
    for (let at = midnightOf(start); at <= end; at += step) found.push(at);
  } else {
    // By the clock: on a day of 23 or 25 hours, seconds since midnight would give 01:00, 03:00 …
    for (const midnight of midnightsFrom(start, end)) {
      for (let seconds = 0; seconds < DAY_SECONDS; seconds += step) found.push(new Date(midnight * 1000).setHours(0, 0, seconds) / 1000);
    }
  }
  return found.filter((at) => at >= start && at <= end);
}

function midnights(start: number, end: number, max: number): number[] {
  const days = DAYS.find((each) => (end - start) / DAY_SECONDS / each <= max) ?? 28;
  return midnightsFrom(start, end).filter((at, count) => at >= start && count % days === 0);
}

/** The midnights up to `end`, from that of the day of `start`. */
function midnightsFrom(start: number, end: number): number[] {
  const found: number[] = [];
  // Each rounded again: where the clocks skip midnight, that day begins at 01:00.
  for (let at = midnightOf(start); at <= end; at = midnightOf(at, 1)) found.push(at);
  return found;
}

function midnightOf(seconds: number, daysLater = 0): number {
  const day = new Date(seconds * 1000);
  day.setDate(day.getDate() + daysLater);
  return day.setHours(0, 0, 0, 0) / 1000;
}

/** The position of a moment in a span, in percent. */
export function percentOfSpan({ start, end }: Span, moment: number): number {
  return Math.max(0, Math.min(100, (100 * (moment - start)) / (end - start)));
}
