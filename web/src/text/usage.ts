// What the page of people says of hours, shares and trends.

import type { State } from "../feed/event";
import type { UsageBy, Usages } from "../feed/history";
import { hours, percent } from "./history";

export const BY_WORDS: Record<UsageBy, string> = { user: "Person", group: "Group", node: "Node", model: "Model" };
const SUM_WORDS: Partial<Record<State, string>> = {
  busy: "busy",
  held: "held, doing nothing",
  free: "free",
  leased: "leased",
  ghost: "with no owner",
  broken: "broken",
  unknown: "not known",
};
/** In which order, and only these. */
const SUMMED = ["busy", "held", "leased", "ghost", "broken", "free", "unknown"] as const satisfies readonly State[];

export interface Summed {
  readonly state: State;
  readonly seconds: number;
  readonly words: string;
  readonly share: string;
}

/** The whole time of all GPUs by how they stood. */
export function summedStates({ by_state: states }: Usages): Summed[] {
  const all = Object.values(states).reduce((sum, seconds) => sum + seconds, 0);
  return SUMMED.flatMap((state, at) => {
    const seconds = states[state] ?? 0;
    const unit = at === 0 ? " GPU-hours" : "";
    return seconds > 0 ? [{ state, seconds, words: `${hours(seconds)}${unit} ${SUM_WORDS[state]}`, share: percent(seconds, all) }] : [];
  });
}
