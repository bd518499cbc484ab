import { expect, it } from "vitest";
import type { Usages } from "../../src/feed/types";
import { averageWatts, mapLimited, monthOf, parseTrendRange, stateShare, trendBuckets, trendSums } from "../../src/state/trends";

import { compareMonths } from "../../src/text/trends";

const NOW = Date.UTC(2026, 10, 16, 14, 30) / 1000;
const DAY = 86_400;

it("the buckets of a range end now and have no gap", () => {
  for (const [range, count] of [["24h", 24], ["7d", 7], ["30d", 30], ["90d", 13], ["12mo", 12]] as const) {
    const buckets = trendBuckets(range, NOW);
    expect(buckets).toHaveLength(count);
    expect(buckets.at(-1)?.end).toBe(NOW);
    for (const [at, bucket] of buckets.entries()) if (at > 0) expect(bucket.start).toBe(buckets[at - 1]?.end);
  }
  expect(trendBuckets("7d", NOW)[5]).toEqual({ start: Date.UTC(2026, 10, 15) / 1000, end: Date.UTC(2026, 10, 16) / 1000 });
});

it("on the hour and at midnight no bucket is empty", () => {
  const midnight = Date.UTC(2026, 10, 16) / 1000;
  for (const range of ["24h", "7d", "30d", "90d"] as const) {
    const buckets = trendBuckets(range, midnight);
    expect(buckets.at(-1)?.end).toBe(midnight);
    expect(buckets.every((bucket) => bucket.end > bucket.start)).toBe(true);
  }
});

it("a month is a calendar month, the current one up to now", () => {
  expect(monthOf(NOW, 0)).toEqual({ start: Date.UTC(2026, 10, 1) / 1000, end: NOW });
  expect(monthOf(NOW, 11)).toEqual({ start: Date.UTC(2025, 11, 1) / 1000, end: Date.UTC(2026, 0, 1) / 1000 });
  expect(parseTrendRange("nonsense")).toBe("30d");
});

it("shares are of all GPU time, and nothing recorded is no zero", () => {
  const usages = { by_state: { busy: 60, held: 15, free: 25 }, total: { energy_joules: 2 * DAY } } as unknown as Usages;
  const sums = trendSums(usages);
  expect(sums && [stateShare(sums, "busy"), stateShare(sums, "held", "ghost")]).toEqual([0.6, 0.15]);
  expect(sums && averageWatts(sums, { start: 0, end: DAY })).toBe(2);
  expect(trendSums({ ...usages, by_state: {} })).toBeNull();
});

it("requests are limited and results stay in order", async () => {
  let running = 0;
  let most = 0;
  const results = await mapLimited([3, 1, 2, 5, 4], 2, async (item) => {
    most = Math.max(most, (running += 1));
    await Promise.resolve();
    running -= 1;
    return item * 10;
  });
  expect([results, most]).toEqual([[30, 10, 20, 50, 40], 2]);
});

it("sums of months are compared by day, averages as they are", () => {
  const month = (days: number, busy: number): Parameters<typeof compareMonths>[0] => ({ sums: { seconds: { busy: busy * 3600 }, all: 54 * days * DAY, joules: days * DAY * 1000 }, span: { start: 0, end: days * DAY } });
  const changes = new Map(compareMonths(month(15, 660), month(30, 1200), null).map(({ name, change }) => [name, change]));
  expect([changes.get("GPU-hours busy"), changes.get("Average power"), changes.get("Energy")]).toEqual(["+10 % a day", "+0 %", "+0 % a day"]);
});
