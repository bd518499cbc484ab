// GPUs that are held but idle, by user and node: whom one might ask for them.

import type { Fleet, Gpu, Node } from "./fleet";

/** The idle GPUs of one user on one node. */
export interface IdleHolding {
  readonly user: string;
  readonly node: Node;
  readonly gpus: readonly Gpu[];
  /** Since when the longest of them is idle. */
  readonly idleSince: number;
  readonly mebibytes: number;
}

/** All idle holdings, the longest idle first. */
export function idleHoldings(fleet: Fleet, matches: (gpu: Gpu) => boolean): IdleHolding[] {
  const groups = new Map<string, Gpu[]>();
  for (const node of fleet.nodes.values()) {
    for (const gpu of node.gpus) {
      if (gpu.info.verdict.state !== "held" || !matches(gpu)) continue;
      const key = `${node.info.number} ${gpu.info.verdict.users?.[0] ?? ""}`;
      groups.set(key, [...(groups.get(key) ?? []), gpu]);
    }
  }
  return [...groups.values()].map(holdingOf).sort((a, b) => a.idleSince - b.idleSince);
}

function holdingOf(gpus: Gpu[]): IdleHolding {
  const [first] = gpus as [Gpu, ...Gpu[]];
  return {
    user: first.info.verdict.users?.[0] ?? "unknown user",
    node: first.node,
    gpus,
    idleSince: Math.min(...gpus.map(({ info }) => info.verdict.idle_since ?? info.verdict.since)),
    mebibytes: gpus.reduce((sum, gpu) => sum + (gpu.figures[1] ?? 0), 0),
  };
}
