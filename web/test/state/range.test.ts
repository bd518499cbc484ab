import { expect, it } from "vitest";
import { clampToHistory, formatZoom, parseDays, parseRange, parseZoom, spanEndingAt, spanOfDays, stepMoment, visibleSpan } from "../../src/state/range";

const DAY = 86_400;

function midnight(): number {
  return new Date(2026, 10, 14).getTime() / 1000;
}

it("the span ends now unless the moment is before it", () => {
  expect(visibleSpan(null, 1000, 100, null)).toEqual(spanEndingAt(1000, 100));
  expect(visibleSpan(950, 1000, 100, null)).toEqual(spanEndingAt(1000, 100));
  expect(visibleSpan(500, 1000, 100, null)).toEqual({ start: 450, end: 550 });
});

it("the span does not move while the moment is inside", () => {
  const before = { start: 450, end: 550 };
  expect(visibleSpan(540, 1000, 100, before)).toBe(before);
  expect(visibleSpan(560, 1000, 100, before)).toEqual({ start: 510, end: 610 });
  expect(visibleSpan(540, 1000, 200, before)).toEqual({ start: 440, end: 640 });
});

it("steps are rounded, and beyond now is live", () => {
  expect(stepMoment(null, -1, 600, 10_000)).toBe(9600);
  expect(stepMoment(9601, -1, 600, 10_000)).toBe(9600);
  expect(stepMoment(9000, 1, 600, 10_000)).toBe(9600);
  expect(stepMoment(9600, 1, 600, 10_000)).toBeNull();
});

it("the span is cut off at the oldest data, but at least an hour stays", () => {
  const span = { start: 0, end: 100_000 };
  expect([null, -5, 40_000, 99_999].map((oldest) => clampToHistory(span, oldest).start)).toEqual([0, 0, 40_000, 96_400]);
});

it("a range of days is in local time and ends now at the latest", () => {
  expect(["2026-11-12..2026-11-13", "2026-11-13..2026-11-12", "7d", "soon..now"].map(parseDays)).toEqual([["2026-11-12", "2026-11-13"], null, null, null]);
  expect(spanOfDays(["2026-11-12", "2026-11-13"], midnight() + DAY)).toEqual({ start: midnight() - 2 * DAY, end: midnight() });
  expect(spanOfDays(["2026-11-14", "2026-11-14"], midnight() + 7200).end).toBe(midnight() + 7200);
});

it("an unknown range is the default", () => {
  expect([parseRange("7d", "24h"), parseRange("1h", "7d", ["24h", "7d"]), parseRange("soon", "24h")]).toEqual(["7d", "7d", "24h"]);
});

it("a zoom is a span in the address", () => {
  const start = Date.UTC(2026, 10, 15, 3) / 1000;
  expect(formatZoom({ start: start + 0.4, end: start + 599.2 })).toBe("2026-11-15T03:00Z..2026-11-15T03:10Z");
  expect(parseZoom("2026-11-15T03:00Z..2026-11-15T03:10Z")).toEqual({ start, end: start + 600 });
  expect(["", "7d", "2026-11-15T03:10Z..2026-11-15T03:00Z", "..", "a..b"].map(parseZoom)).toEqual([null, null, null, null, null]);
});
