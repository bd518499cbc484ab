// What is kept and does nothing: whom one might ask for it.

import type { Fleet, Gpu, Node } from "./fleet";

/** The GPUs that one person keeps idle on one node. */
export interface Kept {
  readonly user: string;
  readonly node: Node;
  readonly gpus: readonly Gpu[];
  /** Since when the longest of them does nothing. */
  readonly idleSince: number;
  readonly mebibytes: number;
}

/** Who keeps what idle, the longest first. */
export function keptIdle(fleet: Fleet, matches: (gpu: Gpu) => boolean): Kept[] {
  const found = new Map<string, Gpu[]>();
  for (const node of fleet.nodes.values()) {
    for (const gpu of node.gpus) {
      if (gpu.brief.verdict.state !== "held" || !matches(gpu)) continue;
      const key = `${node.brief.number} ${gpu.brief.verdict.users?.[0] ?? ""}`;
      found.set(key, [...(found.get(key) ?? []), gpu]);
    }
  }
  return [...found.values()].map(summed).sort((a, b) => a.idleSince - b.idleSince);
}

function summed(gpus: Gpu[]): Kept {
  const [first] = gpus as [Gpu, ...Gpu[]];
  return {
    user: first.brief.verdict.users?.[0] ?? "somebody",
    node: first.node,
    gpus,
    idleSince: Math.min(...gpus.map(({ brief }) => brief.verdict.idle_since ?? brief.verdict.since)),
    mebibytes: gpus.reduce((sum, gpu) => sum + (gpu.figures[1] ?? 0), 0),
  };
}
