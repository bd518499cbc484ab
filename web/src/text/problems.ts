// Texts of the banner about problems of the hub.

import type { HubProblem, RefusedSender } from "../feed/types";
import { duration, plural, sentence } from "./format";

/** "Free some space. (0 B are left, for 2 min)". */
export function problemText({ remedy, detail, since }: HubProblem, now: number): string {
  return `${sentence(remedy)} (${detail}; for ${duration(Math.max(0, now - since))})`;
}

/** "2 machines are refused". */
export function refusedTitle(senders: readonly RefusedSender[]): string {
  const addresses = new Set(senders.map(({ address, name }) => `${address} ${name ?? ""}`));
  return `${plural(addresses.size, "machine")} ${addresses.size === 1 ? "is" : "are"} refused`;
}

/** "gpu07 (10.0.0.7)". */
export function senderName({ name, address }: RefusedSender): string {
  return name === null ? address : `${name} (${address})`;
}

/** Why a sender is refused, how often, and what to do. */
export function refusedText({ reason, remedy, attempts, last_at }: RefusedSender, now: number): string {
  const last = `${plural(attempts, "attempt")}, the last ${duration(Math.max(0, now - last_at))} ago`;
  return [`${sentence(reason)} (${last})`, remedy && sentence(remedy)].filter(Boolean).join(" ");
}
