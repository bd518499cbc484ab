// How what people hold is said.

import type { Person } from "../state/people.svelte";
import { counted, duration } from "./words";

export const UNSEEN_NAME = "not visible";
export const UNSEEN_MEANING = "GPUs in use by processes whose owner the hub cannot see";

/** "98 % used", or what of it is idle and for how long. */
export function use({ idle_gpus: idle, idle_seconds: seconds, busy_percent: busy }: Person): string {
  if (idle > 0) return `${idle} idle${seconds === null ? "" : ` ${duration(seconds)}`}`;
  return busy === null ? "–" : `${Math.round(busy)} % used`;
}

/** One sentence about them all: what they have, or had then, and how much of it does nothing. */
export function summed(people: readonly Person[], isPast: boolean): { have: string; idle: string } {
  const gpus = people.reduce((sum, person) => sum + person.gpus, 0);
  const idle = people.reduce((sum, person) => sum + person.idle_gpus, 0);
  const names = people.filter((person) => person.seen).length;
  return {
    have: isPast
      ? `${counted(names, "person", "people")} had ${counted(gpus, "GPU")} then.`
      : `${counted(names, "person has", "people have")} ${counted(gpus, "GPU")} now.`,
    idle: idle === 0 ? "" : `${idle} of these ${idle === 1 ? (isPast ? "was" : "is") : isPast ? "were" : "are"} doing nothing.`,
  };
}
