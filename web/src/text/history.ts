// How moments and stretches of the past are said.

import type { NotGranted } from "../feed/ask";
import type { Summary } from "../feed/event";
import type { GpuOfNode, Moment } from "../feed/history";
import { type Held, IN_PARTS, type Stretch } from "../state/blocks";
import type { Range } from "../state/range";
import { DAY_SECONDS } from "../state/ticks";
import { UNSEEN_NAME } from "./people";
import { NOT_MEASURED, counted, duration } from "./words";

const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "numeric" });
const DATE = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const LONG_DATE = new Intl.DateTimeFormat("en-GB", { weekday: "long", day: "numeric", month: "long", year: "numeric" });
/** The user of a process whose owner the hub cannot see; see model/people.py. */
const UNSEEN = "(unseen)";

export const RANGE_WORDS: Record<Range, string> = { "1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d", "30d": "30 d" };
export const SPOKEN_RANGE: Record<Range, string> = {
  "1h": "last hour",
  "6h": "last six hours",
  "24h": "last 24 hours",
  "7d": "last 7 days",
  "30d": "last 30 days",
};
export const SILENT = "silent";
export const NO_HISTORY = "What was is not known here";

/** Why nothing is told of what a node was. */
export function noPast({ status, code, message }: NotGranted): string {
  return code === "unknown_node" || status === 400 ? "nothing is kept of it yet" : message;
}

/** "03:12". */
export function clockAt(seconds: number): string {
  return CLOCK.format(seconds * 1000);
}

/** "03:12 yesterday", "14:00 today", "09:30 on Mon 9". */
export function momentWords(at: number, now: number): string {
  const days = daysBetween(at, now);
  return `${clockAt(at)} ${days === 0 ? "today" : days === 1 ? "yesterday" : `on ${days < 7 ? DAY.format(at * 1000) : DATE.format(at * 1000)}`}`;
}

/** "03:12"; "Sat 14 03:12" where more than a day is shown. */
export function stampWords(at: number, rangeSeconds: number): string {
  return rangeSeconds > DAY_SECONDS ? `${DAY.format(at * 1000)} ${clockAt(at)}` : clockAt(at);
}

/** "Sat 14 03:12"; "14 Oct 03:12" of what is longer ago. */
export function startWords(at: number, now: number): string {
  return `${(daysBetween(at, now) < 7 ? DAY : DATE).format(at * 1000)} ${clockAt(at)}`;
}

/** "1 Nov to 8 Nov", of days as the address writes them. */
export function daysWords([first, last]: readonly [string, string]): string {
  const said = (day: string): string => DATE.format(new Date(`${day}T00:00`));
  return first === last ? said(first) : `${said(first)} to ${said(last)}`;
}

/** "2026-11-15", as the reader's clock has it. */
export function dayAt(seconds: number): string {
  const date = new Date(seconds * 1000);
  return [date.getFullYear(), date.getMonth() + 1, date.getDate()].map((part) => String(part).padStart(2, "0")).join("-");
}

/** "Saturday 14 November 2026, 17 h ago." */
export function dateWords(at: number, now: number): string {
  return `${LONG_DATE.format(at * 1000)}, ${duration(now - at)} ago.`;
}

/** "13 of 14 nodes were reporting." */
export function coverageWords({ nodes, nodes_reporting: reporting }: Pick<Summary, "nodes" | "nodes_reporting">): string {
  return `${reporting} of ${counted(nodes, "node")} ${reporting === 1 ? "was" : "were"} reporting.`;
}

function daysBetween(at: number, now: number): number {
  const midnight = (seconds: number): number => new Date(seconds * 1000).setHours(0, 0, 0, 0);
  return Math.round((midnight(now) - midnight(at)) / (1000 * DAY_SECONDS));
}

/** The word at a mark of a time axis. */
export function tickWord(at: number, days: boolean, rangeSeconds: number): string {
  if (days) return (rangeSeconds > 14 * DAY_SECONDS ? DATE : DAY).format(at * 1000);
  const isMidnight = new Date(at * 1000).getHours() === 0 && new Date(at * 1000).getMinutes() === 0;
  return isMidnight && rangeSeconds > DAY_SECONDS / 2 ? DAY.format(at * 1000) : clockAt(at);
}

/** Who has a GPU, in as few words as a block has room for: "priya", "ivan idle", "no owner". Nothing for what is free. */
export function blockWord({ state, user, others }: Held): string {
  const who = nameOf(user) + (others > 0 ? ` +${others}` : "");
  switch (state) {
    case null:
      return SILENT;
    case "free":
      return "";
    case "busy":
      return who || "somebody";
    case "held":
      return who ? `${who} idle` : "idle";
    case "leased":
      return who || state;
    case "ghost":
      return "no owner";
    default:
      return state;
  }
}

/** "priya and 1 more, busy, 94 %, 22:20 to 12:50". */
export function blockSpoken(stretch: Stretch, gpus: string): string {
  const { state, user, others, busyPercent } = stretch;
  const who = user ? `${nameOf(user)}${others > 0 ? ` and ${others} more` : ""}, ` : "";
  const busy = state === "busy" && busyPercent !== null ? `, ${Math.round(busyPercent)} %` : "";
  return `${gpus}: ${who}${state ?? SILENT}${busy}, ${spanWords(stretch.start, stretch.end)}`;
}

/** "22:20 to 12:50"; with days where it is longer than one. */
export function spanWords(start: number, end: number): string {
  const day = end - start > DAY_SECONDS || daysBetween(start, end) > 1;
  const said = (at: number): string => (day ? `${DAY.format(at * 1000)} ${clockAt(at)}` : clockAt(at));
  return `${said(start)} to ${said(end)}`;
}

export function nameOf(user: string): string {
  return user === UNSEEN ? UNSEEN_NAME : user === IN_PARTS ? "in parts" : user;
}

/** "0", and "0:1" of its second instance. */
export function indexOf({ uuid, index, parent }: GpuOfNode, gpus: readonly GpuOfNode[]): string {
  if (parent === null) return String(index);
  return `${index}:${gpus.filter((gpu) => gpu.parent === parent).findIndex((gpu) => gpu.uuid === uuid)}`;
}

/** What the ribbon says of a moment: "03:12 yesterday, 71 of 112 GPUs busy". */
export function ribbonSpoken(at: number, now: number, moment: Moment | null): string {
  if (moment === null) return momentWords(at, now);
  const all = Object.values(moment.gpus).reduce((sum, count) => sum + count, 0);
  return `${momentWords(at, now)}, ${Math.round(moment.gpus.busy ?? 0)} of ${counted(Math.round(all), "GPU")} busy`;
}

/** GPU-hours: "2,425", "0.4", "<0.1". */
export function hours(seconds: number): string {
  return figure(seconds / 3600);
}

/** The same with its unit, and less than one in minutes: "2,425 h", "24 m". */
export function inHours(seconds: number): string {
  return seconds > 0 && seconds < 3600 ? duration(seconds) : `${hours(seconds)} h`;
}

/** Energy: "1,014 kWh", "0.4 kWh", "<0.1 kWh". */
export function energy(joules: number): string {
  return joules === 0 ? NOT_MEASURED : `${figure(joules / 3.6e6)} kWh`;
}

function figure(value: number): string {
  if (value > 0 && value < 0.05) return "<0.1";
  return value >= 10 || value === 0 ? Math.round(value).toLocaleString("en") : value.toFixed(1);
}

/** A share in whole percent: "42 %", "<1 %"; a dash where there is nothing to be a share of. */
export function percent(part: number, whole: number): string {
  if (whole <= 0) return NOT_MEASURED;
  const share = (100 * part) / whole;
  return share > 0 && share < 0.5 ? "<1 %" : `${Math.round(share)} %`;
}
