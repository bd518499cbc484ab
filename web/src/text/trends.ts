// Texts of the trends: ranges, sentences, the comparison of two months.

import type { Span } from "../feed/history";
import { type TrendRange, type TrendSums, averageWatts, stateShare } from "../state/trends";
import { UNKNOWN, grouped, watts } from "./format";
import { formatEnergy, formatHours } from "./history";
import { clockTime, isoDay, monthDay, weekdayText } from "./time";

export const TREND_LABELS: Record<TrendRange, string> = { "24h": "24 hours", "7d": "7 days", "30d": "30 days", "90d": "90 days", "12mo": "12 months" };
export const BUCKET_NAMES: Record<TrendRange, string> = { "24h": "hour", "7d": "day", "30d": "day", "90d": "week", "12mo": "month" };

const MONTH = new Intl.DateTimeFormat("en", { month: "long", timeZone: "UTC" });

/** The label of a bucket on the axis. */
export function bucketLabel({ start }: Span, range: TrendRange): string {
  if (range === "24h") return clockTime(start);
  if (range === "12mo") return new Date(start * 1000).toISOString().slice(0, 7);
  return utc(start, monthDay);
}

/** A bucket in full: "Fri 11-06", "week of 2026-11-02". */
export function bucketTitle({ start }: Span, range: TrendRange): string {
  if (range === "24h") return `${isoDay(start)} ${clockTime(start)}`;
  if (range === "90d") return `week of ${utc(start, isoDay)}`;
  return range === "12mo" ? bucketLabel({ start, end: start }, range) : utc(start, weekdayText);
}

/** Buckets are days by UTC: format their start as if UTC were local. */
function utc(seconds: number, format: (seconds: number) => string): string {
  return format(seconds + new Date(seconds * 1000).getTimezoneOffset() * 60);
}

/** "November": the month of a span. */
export function monthName({ start }: Span): string {
  return MONTH.format(start * 1000);
}

/** "71 %". */
export function percent(share: number): string {
  const value = 100 * share;
  return value > 0 && value < 0.5 ? "<1 %" : `${Math.round(value)} %`;
}

/** "71 % busy in November so far, 7 points more than October." */
export function trendSentence(current: TrendSums | null, before: TrendSums | null, months: readonly [string, string]): string {
  if (!current) return "";
  const text = `${percent(stateShare(current, "busy"))} busy in ${months[0]} so far`;
  if (!before) return `${text}.`;
  const points = Math.round(100 * (stateShare(current, "busy") - stateShare(before, "busy")));
  if (points === 0) return `${text}, as in ${months[1]}.`;
  return `${text}, ${Math.abs(points)} ${Math.abs(points) === 1 ? "point" : "points"} ${points > 0 ? "more" : "less"} than in ${months[1]}.`;
}

export interface ComparedRow {
  readonly name: string;
  readonly current: string;
  readonly before: string;
  readonly change: string;
}

interface Month {
  readonly sums: TrendSums | null;
  readonly span: Span;
}

/** This month against the one before: shares in points, sums per day where the months differ in length. */
export function compareMonths(current: Month, before: Month, price: { perKwh: number; currency: string } | null): ComparedRow[] {
  const share = (name: string, ...states: Parameters<typeof stateShare>[1][]): ComparedRow => {
    const values = [current, before].map(({ sums }) => (sums ? stateShare(sums, ...states) : null));
    return { name, current: shown(values[0], percent), before: shown(values[1], percent), change: points(values[0], values[1]) };
  };
  const amount = (name: string, value: (month: Month) => number | null, format: (value: number) => string, length: (month: Month) => number, per: string): ComparedRow => {
    const [now, then] = [value(current), value(before)];
    const change = now === null || then === null || then === 0 ? "" : `${relative(now / length(current) / (then / length(before)))}${per}`;
    return { name, current: shown(now, format), before: shown(then, format), change };
  };
  const sum = (name: string, value: (month: Month) => number | null, format: (value: number) => string): ComparedRow =>
    amount(name, value, format, ({ span }) => span.end - span.start, " a day");
  const cost = price && sum("Cost", ({ sums }) => sums && (sums.joules / 3.6e6) * price.perKwh, (value) => `${grouped(Math.round(value))} ${price.currency}`.trim());
  return [
    share("Busy", "busy"),
    share("Held idle", "held", "ghost"),
    share("Free", "free"),
    sum("GPU-hours busy", ({ sums }) => sums && (sums.seconds.busy ?? 0), formatHours),
    sum("GPU-hours idle", ({ sums }) => sums && (sums.seconds.held ?? 0) + (sums.seconds.ghost ?? 0), formatHours),
    sum("GPU-hours broken", ({ sums }) => sums && (sums.seconds.broken ?? 0), formatHours),
    amount("Average power", ({ sums, span }) => sums && averageWatts(sums, span), watts, () => 1, ""),
    sum("Energy", ({ sums }) => sums && sums.joules, formatEnergy),
    ...(cost ? [cost] : []),
  ];
}

function shown(value: number | null | undefined, format: (value: number) => string): string {
  return value == null ? UNKNOWN : format(value);
}

/** "+7" percentage points. */
function points(now: number | null | undefined, then: number | null | undefined): string {
  if (now == null || then == null) return "";
  const change = Math.round(100 * (now - then));
  return change === 0 ? "0" : `${change > 0 ? "+" : "−"}${Math.abs(change)}`;
}

/** "+12 %". */
function relative(ratio: number): string {
  const change = Math.round(100 * (ratio - 1));
  return `${change >= 0 ? "+" : "−"}${grouped(Math.abs(change))} %`;
}
