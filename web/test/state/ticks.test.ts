import { expect, it } from "vitest";
import { percentOfSpan, ticks } from "../../src/state/ticks";
import { clockTime } from "../../src/text/time";

const DAY = 86_400;

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
