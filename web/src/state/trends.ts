// Trends of the whole fleet: which buckets a range has, and what they sum up to.

import type { Span } from "../feed/history";
import type { State } from "../feed/state";
import type { Usages } from "../feed/types";

export const TREND_RANGES = ["24h", "7d", "30d", "90d", "12mo"] as const;
export type TrendRange = (typeof TREND_RANGES)[number];

const HOUR = 3600;
const DAY = 86_400;
const WEEK = 7 * DAY;
const BUCKETS: Record<Exclude<TrendRange, "12mo">, [seconds: number, count: number]> = {
  "24h": [HOUR, 24],
  "7d": [DAY, 7],
  "30d": [DAY, 30],
  "90d": [WEEK, 13],
};
const MONTHS = 12;

/** The states in a bar, from the bottom up. */
export const TREND_STATES = ["busy", "held", "ghost", "leased", "broken", "unknown", "free"] as const satisfies readonly State[];

/** Parse a range; "30d" if it is none. */
export function parseTrendRange(text: string): TrendRange {
  return TREND_RANGES.find((each) => each === text) ?? "30d";
}

/** The buckets of a range up to now: hours, days or weeks by UTC, as the hub sums them up, or months. */
export function trendBuckets(range: TrendRange, now: number): Span[] {
  if (range === "12mo") return Array.from({ length: MONTHS }, (_, at) => monthOf(now, MONTHS - 1 - at));
  const [seconds, count] = BUCKETS[range];
  const unit = Math.min(seconds, DAY);
  // On the hour, the last bucket is the hour before: none is empty.
  const last = Math.ceil(now / unit) * unit;
  return Array.from({ length: count }, (_, at) => ({ start: last - (count - at) * seconds, end: Math.min(now, last - (count - at - 1) * seconds) }));
}

/** The month some months before now, by UTC; the current one up to now. */
export function monthOf(now: number, before: number): Span {
  const date = new Date(now * 1000);
  const start = (months: number): number => Date.UTC(date.getUTCFullYear(), date.getUTCMonth() - months, 1) / 1000;
  return { start: start(before), end: Math.min(now, start(before - 1)) };
}

/** The sums of a bucket. */
export interface TrendSums {
  readonly seconds: Readonly<Partial<Record<State, number>>>;
  /** GPU-seconds in all states. */
  readonly all: number;
  readonly joules: number;
}

/** `null` where nothing was recorded. */
export function trendSums({ by_state: states, total }: Usages): TrendSums | null {
  const all = Object.values(states).reduce((sum, seconds) => sum + seconds, 0);
  return all > 0 ? { seconds: states, all, joules: total.energy_joules } : null;
}

/** The share of a state, from 0 to 1. */
export function stateShare(sums: TrendSums, ...states: readonly State[]): number {
  return states.reduce((sum, state) => sum + (sums.seconds[state] ?? 0), 0) / sums.all;
}

/** Average power in watts of the GPUs over a span. */
export function averageWatts({ joules }: TrendSums, { start, end }: Span): number | null {
  return joules > 0 && end > start ? joules / (end - start) : null;
}

/** Run a request for each item, at most `limit` at a time. */
export async function mapLimited<T, R>(items: readonly T[], limit: number, request: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  let next = 0;
  const work = async (): Promise<void> => {
    for (let at = next++; at < items.length; at = next++) results[at] = await request(items[at] as T);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, work));
  return results;
}
