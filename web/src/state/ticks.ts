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
  for (let at = midnightOf(start); at <= end; at += step) if (at >= start) found.push(at);
  return found;
}

function midnights(start: number, end: number, max: number): number[] {
  const days = DAYS.find((each) => (end - start) / DAY_SECONDS / each <= max) ?? 28;
  const found: number[] = [];
  const day = new Date(midnightOf(start) * 1000);
  for (let count = 0; day.getTime() / 1000 <= end; count += 1, day.setDate(day.getDate() + 1)) {
    if (day.getTime() / 1000 >= start && count % days === 0) found.push(day.getTime() / 1000);
  }
  return found;
}

function midnightOf(seconds: number): number {
  return new Date(seconds * 1000).setHours(0, 0, 0, 0) / 1000;
}

/** The position of a moment in a span, in percent. */
export function percentOfSpan({ start, end }: Span, moment: number): number {
  return Math.max(0, Math.min(100, (100 * (moment - start)) / (end - start)));
}
