// Texts about who uses GPUs now.

import type { Person } from "../feed/types";
import { UNKNOWN, duration, grouped, plural } from "./format";

export const HIDDEN_NAME = "Unknown user";
export const HIDDEN_MEANING = "GPUs used by processes whose owner the hub cannot see";

/** "98 % busy", or how many GPUs are idle and for how long: "2 idle for 2 h 41". */
export function useText({ idle_gpus: idle, idle_seconds: seconds, busy_percent: busy }: Person): string {
  if (idle > 0) return `${grouped(idle)} idle${seconds === null ? "" : ` for ${duration(seconds)}`}`;
  return busy === null ? UNKNOWN : `${Math.round(busy)} % busy`;
}

/** "+25 %": the last week against the one before. */
export function changeText(change: number | null): string {
  if (change === null) return "";
  const percent = Math.round(100 * change);
  if (percent > 999) return "> 10 ×";
  return percent === 0 ? "±0 %" : `${percent > 0 ? "+" : "−"}${Math.abs(percent)} %`;
}

/** How many GPUs people use in total, and how many of those are idle: as in the summary strip, a shared GPU is counted once. */
export function peopleSummary(people: readonly Person[], { gpus, idle }: { gpus: number; idle: number }, isPast: boolean): { total: string; idle: string } {
  const names = people.filter((person) => person.seen).length;
  const verb = isPast ? "had" : names === 1 ? "has" : "have";
  return {
    total: `${plural(names, "person", "people")} ${verb} ${plural(gpus, "GPU")}.`,
    idle: idle === 0 ? "" : `${idle} idle.`,
  };
}
