// What the strip says besides the hub's own counts: sums over what is known.

import type { Fleet } from "./fleet";

export interface Totals {
  freeMebibytes: number;
  watts: number;
  gpusWithPower: number;
  gpusWithoutPower: number;
  newest: number | null;
}

/** Sums over the nodes that report; a silent one's figures are of another time. */
export function totals(fleet: Fleet): Totals {
  const sums: Totals = { freeMebibytes: 0, watts: 0, gpusWithPower: 0, gpusWithoutPower: 0, newest: null };
  for (const node of fleet.nodes.values()) {
    const { heardAt } = node.figures;
    if (heardAt !== null && (sums.newest === null || heardAt > sums.newest)) sums.newest = heardAt;
    if (node.brief.silent) continue;
    for (const { brief, figures } of fleet.gpusOf(node)) {
      const [, used, , watts] = figures;
      if (brief.memory_total_mebibytes !== null && used !== null && brief.verdict.state === "free") {
        sums.freeMebibytes += brief.memory_total_mebibytes - used;
      }
      if (watts === null) sums.gpusWithoutPower += 1;
      else {
        sums.watts += watts;
        sums.gpusWithPower += 1;
      }
    }
  }
  return sums;
}
