// What the strip says besides the hub's own counts: sums over what is known.

import type { Fleet, Node } from "./fleet";

const LOAD_STEPS = 5;

/** Sums over GPUs. */
export interface Sums {
  free: number;
  freeMebibytes: number;
  watts: number;
  gpusWithPower: number;
  gpusWithoutPower: number;
  /** How many are busy at each step of load, the lightest first. */
  readonly loads: number[];
}

export interface Totals extends Sums {
  newest: number | null;
}

/** Sums over the nodes that report; a silent one's figures are of another time. */
export function totals(fleet: Fleet): Totals {
  const all: Totals = { ...nothing(), newest: null };
  for (const { figures, sums } of fleet.nodes.values()) {
    add(all, sums);
    if (figures.heardAt !== null && (all.newest === null || figures.heardAt > all.newest)) all.newest = figures.heardAt;
  }
  return all;
}

/** How hard a GPU works, from 1 to 5. */
export function loadStep(busy: number | null): number {
  return Math.max(1, Math.min(LOAD_STEPS, 1 + Math.floor((busy ?? 0) / 20)));
}

/** The sums of one node; a silent one adds nothing. */
export function sumsOf({ brief, figures }: Node): Sums {
  const its = nothing();
  if (brief.silent) return its;
  let row = 0;
  for (const { memory_total_mebibytes: total, verdict, instances } of brief.gpus) {
    const [busy, used, , watts] = figures.parts[row] ?? [null, null, null, null];
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

function nothing(): Sums {
  return { free: 0, freeMebibytes: 0, watts: 0, gpusWithPower: 0, gpusWithoutPower: 0, loads: [0, 0, 0, 0, 0] };
}

function add(all: Sums, its: Sums): void {
  all.free += its.free;
  all.freeMebibytes += its.freeMebibytes;
  all.watts += its.watts;
  all.gpusWithPower += its.gpusWithPower;
  all.gpusWithoutPower += its.gpusWithoutPower;
  its.loads.forEach((count, step) => (all.loads[step]! += count));
}
