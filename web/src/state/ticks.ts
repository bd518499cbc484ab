// The marks of a time axis: round times of the reader's own clock, as many as there is room for.

import type { Span } from "../feed/history";

const MINUTE = 60;
const HOUR = 3600;
export const DAY_SECONDS = 86_400;
const STEPS = [MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR];
const DAYS = [1, 2, 7, 14, 28];

export interface Ticks {
  readonly at: readonly number[];
  /** Whether each is the beginning of a day. */
  readonly days: boolean;
}

/** At most so many marks. */
export function ticks({ start, end }: Span, most: number): Ticks {
  const step = STEPS.find((each) => (end - start) / each <= most);
  return step ? { at: within(start, end, step), days: false } : { at: midnights(start, end, most), days: true };
}

function within(start: number, end: number, step: number): number[] {
  const found: number[] = [];
  // Counted from midnight, so that two hours are 00:00, 02:00 in any time zone.
  for (let at = midnightOf(start); at <= end; at += step) if (at >= start) found.push(at);
  return found;
}

function midnights(start: number, end: number, most: number): number[] {
  const days = DAYS.find((each) => (end - start) / DAY_SECONDS / each <= most) ?? 28;
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

/** How far along a stretch a moment is, in percent. */
export function percentAlong({ start, end }: Span, moment: number): number {
  return Math.max(0, Math.min(100, (100 * (moment - start)) / (end - start)));
}
