// What is closed to new work, in words.

import type { Closing } from "../feed/types";
import { clockTime, dateTime, isoDay, weekdayText } from "./time";

const WEEK_SECONDS = 6 * 86_400;

/** Who closed it, until when and why: "by maria until Friday 18:00: new fan". */
export function closingText(closing: Closing, now: number): string {
  const until = closing.until === null ? "" : ` until ${untilText(closing.until, now)}`;
  return `by ${closing.by}${until}${closing.note ? `: ${closing.note}` : ""}`;
}

/** What is closed: the node, one of its devices, or every node with a label. */
export function closedTarget(closing: Closing, devices: ReadonlyMap<string, string>): string {
  if (closing.label !== null) return `Every node with ${closing.label.replace("=", " ")}`;
  return closing.uuid === null ? "This node" : (devices.get(closing.uuid) ?? closing.uuid);
}

function untilText(until: number, now: number): string {
  if (isoDay(until) === isoDay(now)) return clockTime(until);
  return until - now < WEEK_SECONDS ? `${weekdayText(until)} ${clockTime(until)}` : dateTime(until);
}
