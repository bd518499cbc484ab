// The calendar of bookings: its span in local days, lanes of a node, and times that a pointer chooses. Pure.

import type { Span } from "../feed/history";
import type { Closing } from "../feed/types";

export const SCALES = ["day", "week", "fortnight"] as const;
export type Scale = (typeof SCALES)[number];
const DAYS: Record<Scale, number> = { day: 1, week: 7, fortnight: 14 };
/** What a pointer snaps to, in minutes. */
const STEP_MINUTES: Record<Scale, number> = { day: 15, week: 60, fortnight: 180 };

/** The span that has a moment in it: a day, or weeks that begin on Monday; in local days, which may have 23 or 25 hours. */
export function calendarSpan(scale: Scale, moment: number): Span {
  const first = new Date(moment * 1000);
  first.setHours(0, 0, 0, 0);
  if (scale !== "day") first.setDate(first.getDate() - ((first.getDay() + 6) % 7));
  return { start: first.getTime() / 1000, end: addDays(first.getTime() / 1000, DAYS[scale]) };
}

/** A moment in the next span, or with -1 in the one before. */
export function stepMoment(scale: Scale, moment: number, steps: number): number {
  return addDays(moment, steps * DAYS[scale]);
}

/** The midnights of a span: where its days begin. */
export function daysOf({ start, end }: Span): number[] {
  const days: number[] = [];
  for (let at = start; at < end; at = addDays(at, 1)) days.push(at);
  return days;
}

/** The same time some days later, by the clock. */
export function addDays(seconds: number, days: number): number {
  const date = new Date(seconds * 1000);
  date.setDate(date.getDate() + days);
  return date.getTime() / 1000;
}

/** The moment at a share of the span (0 to 1), on the scale's grid of local times. */
export function momentAt(scale: Scale, { start, end }: Span, share: number): number {
  return snap(scale, start + Math.max(0, Math.min(1, share)) * (end - start));
}

/** The nearest moment on the scale's grid of local times. */
function snap(scale: Scale, seconds: number): number {
  const date = new Date(seconds * 1000);
  const step = STEP_MINUTES[scale];
  const minutes = date.getHours() * 60 + date.getMinutes();
  date.setHours(0, Math.round(minutes / step) * step, 0, 0);
  return date.getTime() / 1000;
}

/** Where a bar is held: in the middle it moves, at an end it becomes longer or shorter. */
export type Grip = "move" | "start" | "end";

/** How far an arrow key moves a bar, in seconds. */
export function stepSeconds(scale: Scale): number {
  return STEP_MINUTES[scale] * 60;
}

/** A range after a drag by so many seconds, on the scale's grid; at least a step long. */
export function dragRange(scale: Scale, { start, end }: Span, grip: Grip, seconds: number): Span {
  const least = stepSeconds(scale);
  if (grip === "start") return { start: Math.min(snap(scale, start + seconds), end - least), end };
  if (grip === "end") return { start, end: Math.max(snap(scale, end + seconds), start + least) };
  const moved = snap(scale, start + seconds);
  return { start: moved, end: moved + end - start };
}

/** Whether a closing is about this node, or about one of its devices. */
export function coversNode({ node_id, label }: Closing, node: { node_id: string; labels: Record<string, string> }): boolean {
  if (label === null) return node_id === node.node_id;
  const [key = "", ...value] = label.split("=");
  return node.labels[key] === value.join("=");
}

export interface Placed<T> {
  readonly item: T;
  readonly lane: number;
}

/** Put items that overlap in time into lanes below each other, each into the first that is free. */
export function packLanes<T extends { starts_at: number; ends_at: number }>(items: readonly T[]): { placed: Placed<T>[]; lanes: number } {
  const ends: number[] = [];
  const placed = [...items]
    .sort((a, b) => a.starts_at - b.starts_at)
    .map((item) => {
      const found = ends.findIndex((end) => end <= item.starts_at);
      const lane = found === -1 ? ends.length : found;
      ends[lane] = item.ends_at;
      return { item, lane };
    });
  return { placed, lanes: Math.max(1, ends.length) };
}

/** For a field of local date and time: "2026-11-20T18:00". */
export function toLocalField(seconds: number): string {
  const date = new Date(seconds * 1000);
  const two = (value: number): string => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** The moment in such a field; `null` if it is incomplete. */
export function fromLocalField(text: string): number | null {
  const milliseconds = new Date(text).getTime();
  return text === "" || Number.isNaN(milliseconds) ? null : milliseconds / 1000;
}

/** The next full hour: where a new booking starts. */
export function nextHour(now: number): number {
  return Math.ceil(now / 3600) * 3600;
}
