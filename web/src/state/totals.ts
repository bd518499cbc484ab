// Totals over GPUs for the summary strip, besides the hub's own counts.

import type { Fleet, Node } from "./fleet";

const LOAD_STEPS = 5;

/** Totals over the GPUs of a node. */
export interface NodeTotals {
  free: number;
  freeMebibytes: number;
  watts: number;
  gpusWithPower: number;
  gpusWithoutPower: number;
  /** The number of busy GPUs at each load step, the lowest first. */
  readonly loads: number[];
}

export interface Totals extends NodeTotals {
  /** When the last report came. */
  newest: number | null;
}

/** Totals over the nodes that report; the figures of a silent node are out of date. */
export function totals(fleet: Fleet): Totals {
  const all: Totals = { ...noTotals(), newest: null };
  for (const { figures, totals: its } of fleet.nodes.values()) {
    add(all, its);
    if (figures.reportedAt !== null && (all.newest === null || figures.reportedAt > all.newest)) all.newest = figures.reportedAt;
  }
  return all;
}

/** How many GPUs have a user, and how many of them are held but idle. */
export function countUsed(fleet: Fleet): { gpus: number; idle: number } {
  const count = { gpus: 0, idle: 0 };
  for (const { info } of fleet.nodes.values()) {
    for (const { state } of info.gpus.map((gpu) => gpu.verdict)) {
      if (state === "busy" || state === "held") count.gpus += 1;
      if (state === "held") count.idle += 1;
    }
  }
  return count;
}

/** The load step of a GPU, from 1 to 5. */
export function loadStep(busy: number | null): number {
  return Math.max(1, Math.min(LOAD_STEPS, 1 + Math.floor((busy ?? 0) / 20)));
}

/** The totals of one node; zero if it is silent. */
export function nodeTotals({ info, figures }: Node): NodeTotals {
  const its = noTotals();
  if (info.silent) return its;
  let row = 0;
  for (const { memory_total_mebibytes: total, verdict, instances } of info.gpus) {
    const [busy, used, , watts] = figures.rows[row] ?? [null, null, null, null];
    row += 1 + instances.length;
    if (verdict.state === "free") its.free += 1;
    if (verdict.state === "free" && total !== null && used !== null) its.freeMebibytes += total - used;
    if (verdict.state === "busy") its.loads[loadStep(busy) - 1]! += 1;
    if (watts === null) its.gpusWithoutPower += 1;
    else its.gpusWithPower += 1;
    its.watts += watts ?? 0;
  }
  return its;
}

function noTotals(): NodeTotals {
  return { free: 0, freeMebibytes: 0, watts: 0, gpusWithPower: 0, gpusWithoutPower: 0, loads: [0, 0, 0, 0, 0] };
}

function add(all: NodeTotals, its: NodeTotals): void {
  all.free += its.free;
  all.freeMebibytes += its.freeMebibytes;
  all.watts += its.watts;
  all.gpusWithPower += its.gpusWithPower;
  all.gpusWithoutPower += its.gpusWithoutPower;
  its.loads.forEach((count, step) => (all.loads[step]! += count));
}
