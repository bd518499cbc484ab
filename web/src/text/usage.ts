// Texts about usage over time: GPU-hours by state.

import type { UsageBy } from "../feed/history";
import type { State } from "../feed/state";
import type { Usages } from "../feed/types";
import { formatHours, formatShare } from "./history";

export const BY_LABELS: Record<UsageBy, string> = { user: "User", group: "Group", node: "Node", model: "Model" };
/** The states in the order of the bar. */
const ORDER = ["busy", "held", "leased", "ghost", "broken", "free", "unknown"] as const satisfies readonly State[];

export interface StateTotal {
  readonly state: State;
  readonly seconds: number;
  readonly text: string;
  readonly share: string;
}

/** The time of all GPUs, by state. */
export function stateTotals({ by_state: states }: Usages): StateTotal[] {
  const all = Object.values(states).reduce((sum, seconds) => sum + seconds, 0);
  return ORDER.flatMap((state, at) => {
    const seconds = states[state] ?? 0;
    const unit = at === 0 ? " GPU-hours" : "";
    const name = state === "held" ? "held idle" : state;
    return seconds > 0 ? [{ state, seconds, text: `${formatHours(seconds)}${unit} ${name}`, share: formatShare(seconds, all) }] : [];
  });
}
