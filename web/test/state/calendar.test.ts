import { describe, expect, test } from "vitest";

import { addDays, calendarSpan, coversNode, daysOf, dragRange, fromLocalField, momentAt, packLanes, stepMoment, toLocalField } from "../../src/state/calendar";

const HOUR = 3600;
const at = (text: string): number => new Date(text).getTime() / 1000;

describe("the calendar", () => {
  test("shows local days and weeks from Monday", () => {
    expect(calendarSpan("day", at("2026-11-18T13:00"))).toEqual({ start: at("2026-11-18T00:00"), end: at("2026-11-19T00:00") });
    expect(calendarSpan("week", at("2026-11-22T23:00"))).toEqual({ start: at("2026-11-16T00:00"), end: at("2026-11-23T00:00") });
    expect(daysOf(calendarSpan("fortnight", at("2026-11-18T13:00")))).toHaveLength(14);
  });

  test("keeps the time of day over days whose clocks are set", () => {
    for (const day of ["2026-03-28T12:00", "2026-10-24T12:00"]) {
      expect(new Date(addDays(at(day), 1) * 1000).getHours()).toBe(12);
      expect(toLocalField(stepMoment("week", at(day), 1)).slice(11)).toBe("12:00");
    }
  });

  test("snaps a pointer to full hours in a week", () => {
    const span = calendarSpan("week", at("2026-11-18T13:00"));
    const share = (at("2026-11-20T18:20") - span.start) / (span.end - span.start);
    expect(momentAt("week", span, share)).toBe(at("2026-11-20T18:00"));
    expect(momentAt("week", span, -1)).toBe(span.start);
    expect(momentAt("day", calendarSpan("day", at("2026-11-20T00:00")), 0.76)).toBe(at("2026-11-20T18:15"));
  });

  test("puts what overlaps into lanes", () => {
    const booking = (start: number, hours: number): { starts_at: number; ends_at: number } => ({ starts_at: start * HOUR, ends_at: (start + hours) * HOUR });
    const { placed, lanes } = packLanes([booking(5, 3), booking(0, 6), booking(6, 2), booking(8, 1)]);
    expect(placed.map(({ lane }) => lane)).toEqual([0, 1, 0, 0]);
    expect(lanes).toBe(2);
    expect(packLanes([]).lanes).toBe(1);
  });

  test("reads and writes fields of local time", () => {
    expect(fromLocalField("2026-11-20T18:00")).toBe(at("2026-11-20T18:00"));
    expect(toLocalField(at("2026-11-20T18:05"))).toBe("2026-11-20T18:05");
    expect(fromLocalField("")).toBeNull();
    expect(fromLocalField("2026-11")).not.toBe(NaN);
  });

  test("moves a bar and keeps its length, or changes one end of it", () => {
    const booking = { start: at("2026-11-20T18:00"), end: at("2026-11-21T06:00") };
    expect(dragRange("week", booking, "move", -2.2 * HOUR)).toEqual({ start: at("2026-11-20T16:00"), end: at("2026-11-21T04:00") });
    expect(dragRange("week", booking, "end", 3 * HOUR)).toEqual({ start: booking.start, end: at("2026-11-21T09:00") });
    expect(dragRange("week", booking, "start", HOUR)).toEqual({ start: at("2026-11-20T19:00"), end: booking.end });
    expect(dragRange("week", booking, "end", -99 * HOUR)).toEqual({ start: booking.start, end: booking.start + HOUR });
    expect(dragRange("week", booking, "start", 99 * HOUR)).toEqual({ start: booking.end - HOUR, end: booking.end });
  });

  test("knows which closings are about a node", () => {
    const closing = { id: "1", uuid: null, until: null, note: "", by: "maria", created_at: 0 };
    const node = { node_id: "a", labels: { rack: "3=b" } };
    expect(coversNode({ ...closing, node_id: "a", label: null }, node)).toBe(true);
    expect(coversNode({ ...closing, node_id: "b", label: null }, node)).toBe(false);
    expect(coversNode({ ...closing, node_id: null, label: "rack=3=b" }, node)).toBe(true);
    expect(coversNode({ ...closing, node_id: null, label: "rack=3" }, node)).toBe(false);
  });
});
