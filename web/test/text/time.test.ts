import { expect, it } from "vitest";
import { clockTime, dateText, dateTime, isoDay, sinceText, spanText, tickLabel, timestampText, weekdayText, zoneName } from "../../src/text/time";

const DAY = 86_400;
const AT = new Date(2026, 10, 14, 3, 5).getTime() / 1000;

it("a time has 24 hours and an ISO day, and the zone is named", () => {
  expect([clockTime(AT), isoDay(AT), dateTime(AT), weekdayText(AT)]).toEqual(["03:05", "2026-11-14", "2026-11-14 03:05", "Sat 11-14"]);
  expect(dateText(AT, AT + 7200)).toBe(`2026-11-14 03:05 ${zoneName(AT)}, 2 h ago.`);
  expect(zoneName(AT)).toMatch(/^[A-Z]/);
});

it("only what spans days has dates", () => {
  expect(spanText(AT, AT + 3600)).toBe("03:05 to 04:05");
  expect(spanText(AT, AT + 2 * DAY)).toBe("2026-11-14 03:05 to 2026-11-16 03:05");
  expect([timestampText(AT, DAY), timestampText(AT, 7 * DAY)]).toEqual(["03:05", "11-14 03:05"]);
  expect([tickLabel(AT, true, 7 * DAY), tickLabel(AT, true, 30 * DAY), tickLabel(AT, false, DAY)]).toEqual(["Sat 11-14", "11-14", "03:05"]);
  expect([sinceText(AT, AT + 9660), sinceText(AT, AT + 3 * DAY)]).toEqual(["since 03:05, 2 h 41", "for 3 d"]);
});
