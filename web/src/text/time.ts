// How times are written: 24-hour clock, ISO day, in the browser's time zone, which is named where a date is.

import { DAY_SECONDS } from "../state/ticks";
import { duration } from "./format";

const WEEKDAY = new Intl.DateTimeFormat("en", { weekday: "short" });
const ZONE = new Intl.DateTimeFormat("en-GB", { timeZoneName: "short" });

/** "03:12". */
export function clockTime(seconds: number): string {
  const date = new Date(seconds * 1000);
  return `${two(date.getHours())}:${two(date.getMinutes())}`;
}

/** "2026-11-15". */
export function isoDay(seconds: number): string {
  const date = new Date(seconds * 1000);
  return `${date.getFullYear()}-${monthDay(seconds)}`;
}

/** "11-15", for an axis. */
export function monthDay(seconds: number): string {
  const date = new Date(seconds * 1000);
  return `${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/** "Sun 11-15", for an axis. */
export function weekdayText(seconds: number): string {
  return `${WEEKDAY.format(seconds * 1000)} ${monthDay(seconds)}`;
}

/** "2026-11-15 03:12". */
export function dateTime(seconds: number): string {
  return `${isoDay(seconds)} ${clockTime(seconds)}`;
}

/** The time zone at this time: "CET", "GMT+5:30". */
export function zoneName(seconds: number): string {
  return ZONE.formatToParts(seconds * 1000).find(({ type }) => type === "timeZoneName")?.value ?? "local time";
}

/** "03:12 yesterday", "14:00 today", "2026-11-09 09:30". */
export function momentText(at: number, now: number): string {
  const days = daysBetween(at, now);
  if (days > 1) return dateTime(at);
  return `${clockTime(at)} ${days === 1 ? "yesterday" : "today"}`;
}

/** "03:12"; "11-14 03:12" if more than a day is shown. */
export function timestampText(at: number, rangeSeconds: number): string {
  return rangeSeconds > DAY_SECONDS ? `${monthDay(at)} ${clockTime(at)}` : clockTime(at);
}

/** "2026-11-01 to 2026-11-08". */
export function daysText([first, last]: readonly [string, string]): string {
  return first === last ? first : `${first} to ${last}`;
}

/** "2026-11-14 03:12 CET, 17 h ago." */
export function dateText(at: number, now: number): string {
  return `${dateTime(at)} ${zoneName(at)}, ${duration(now - at)} ago.`;
}

/** "22:20 to 12:50"; with dates if it is longer than a day. */
export function spanText(start: number, end: number): string {
  const format = end - start > DAY_SECONDS || daysBetween(start, end) > 1 ? dateTime : clockTime;
  return `${format(start)} to ${format(end)}`;
}

/** The label of a tick on a time axis. */
export function tickLabel(at: number, days: boolean, rangeSeconds: number): string {
  if (days) return rangeSeconds > 14 * DAY_SECONDS ? monthDay(at) : weekdayText(at);
  return clockTime(at) === "00:00" && rangeSeconds > DAY_SECONDS / 2 ? weekdayText(at) : clockTime(at);
}

/** "since 17:39, 2 h 41"; "for 3 d" if that is more than a day. */
export function sinceText(moment: number, now: number): string {
  const age = now - moment;
  return age < DAY_SECONDS ? `since ${clockTime(moment)}, ${duration(age)}` : `for ${duration(age)}`;
}

function daysBetween(at: number, now: number): number {
  const midnight = (seconds: number): number => new Date(seconds * 1000).setHours(0, 0, 0, 0);
  return Math.round((midnight(now) - midnight(at)) / (1000 * DAY_SECONDS));
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
