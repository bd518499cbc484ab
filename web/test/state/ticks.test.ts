import { afterEach, expect, it, vi } from "vitest";
import { type Ticks, percentOfSpan, ticks } from "../../src/state/ticks";
import { clockTime } from "../../src/text/time";

const DAY = 86_400;

afterEach(() => vi.unstubAllEnvs());

function midnight(): number {
  return new Date(2026, 10, 14).getTime() / 1000;
}

it("ticks are at round local times and not more than requested", () => {
  const start = midnight() + 5 * 3600 + 7;
  for (const [seconds, most] of [[3600, 6], [DAY, 12], [7 * DAY, 7], [30 * DAY, 10], [90 * DAY, 8]] as const) {
    const { at } = ticks({ start, end: start + seconds }, most);
    expect(at.length).toBeGreaterThan(1);
    expect(at.length).toBeLessThanOrEqual(most + 1);
    expect(at.every((each) => each >= start && each <= start + seconds && new Date(each * 1000).getSeconds() === 0)).toBe(true);
  }
  expect(ticks({ start: midnight(), end: midnight() + DAY }, 12).at.map(clockTime).slice(0, 3)).toEqual(["00:00", "02:00", "04:00"]);
  expect(percentOfSpan({ start: 10, end: 20 }, 15)).toBe(50);
});

it.each([
  ["Europe/Berlin", "2026-03-29", [18, 0, 6, 12]],
  ["Europe/Berlin", "2026-10-25", [18, 0, 6, 12]],
  ["America/New_York", "2026-03-08", [18, 0, 6, 12]],
  ["Asia/Beirut", "2026-03-29", [18, 1, 6, 12]],
])("ticks stay round where the clocks change: %s on %s", (zone, day, expected) => {
  vi.stubEnv("TZ", zone);
  const hours = ({ at }: Ticks): number[] => at.map((each) => new Date(each * 1000).getHours());
  const end = new Date(`${day}T13:00`).getTime() / 1000;
  expect(hours(ticks({ start: end - 20 * 3600, end }, 4))).toEqual(expected);
  const week = ticks({ start: end - DAY, end: end + 6 * DAY }, 7);
  expect(hours(week)).toEqual([expected[1], 0, 0, 0, 0, 0, 0]);
});
