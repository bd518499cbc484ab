// Texts about a broken GPU: what is wrong, what to do, whom it concerns.

import type { JudgedGpu, NodeView } from "../feed/types";
import { formatRanges, usersOf } from "./detail";
import { processesOf } from "./card";
import { duration, sentence, shortModel } from "./format";
import { dateTime, zoneName } from "./time";

/** "Broken for 5 h 13: fell off the bus". */
export function faultTitle({ verdict, fault }: JudgedGpu, now: number): string {
  const what = fault?.detail ?? verdict.reason.split(". ")[0] ?? "";
  return `Broken for ${duration(now - verdict.since)}${what ? `: ${what}` : ""}`;
}

/** When it broke, as the driver has it; otherwise when the hub first saw that it is broken. */
export function brokenSince({ verdict, fault }: JudgedGpu): number {
  return fault?.since ?? verdict.since;
}

/** The remedy as steps: the hub separates them by semicolons. */
export function remedySteps({ fault, verdict }: JudgedGpu): string[] {
  // Without a fault the reason has the remedy: "3 uncorrectable memory errors: results may be wrong; reset it or reboot the node".
  const remedy = fault?.remedy ?? (fault ? "" : (verdict.reason.split(". Was ")[0]?.split("; ").slice(1).join("; ") ?? ""));
  return remedy.split("; ").filter(Boolean).map((step) => step.charAt(0).toUpperCase() + step.slice(1));
}

export interface Neighbour {
  readonly user: string;
  /** "GPU 0–3". */
  readonly gpus: string;
}

/** The people on the other GPUs of the node: a reboot would end their jobs. */
export function neighbours({ gpus }: NodeView, uuid: string): Neighbour[] {
  const found = new Map<string, number[]>();
  for (const gpu of gpus) {
    if (gpu.uuid === uuid) continue;
    for (const user of usersOf(processesOf(gpu) ?? [])) found.set(user, [...(found.get(user) ?? []), gpu.index]);
  }
  return [...found].map(([user, indices]) => ({ user, gpus: `GPU ${formatRanges(indices)}` }));
}

/** A message to the people on the node. */
export function warnMessage(node: string, index: number, people: readonly Neighbour[]): string {
  const names = people.map(({ user }) => user).join(", ");
  return `${names}: GPU ${index} of ${node} is broken and the machine must be rebooted. Please save your work and tell me when it can be done.`;
}

/** Everything about the fault, as text for a ticket. */
export function ticketText(node: NodeView, gpu: JudgedGpu): string {
  const since = brokenSince(gpu);
  const lines = [
    `${node.name} GPU ${gpu.index} (${shortModel(gpu.name)}) is broken since ${dateTime(since)} ${zoneName(since)}`,
    sentence(gpu.verdict.reason),
    `UUID ${gpu.uuid}`,
    gpu.pci_bus_id && `PCI address ${gpu.pci_bus_id}`,
    node.host.driver_version && `Driver ${node.host.driver_version}, kernel ${node.host.kernel ?? "unknown"}`,
  ];
  return lines.filter(Boolean).join("\n");
}
