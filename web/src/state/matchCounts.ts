// How many GPUs and MIG instances of each node match a filter. Nodes are immutable: only those that changed are counted again.

import { type MatchCount, type Term, countMatches } from "./filterMatch";
import type { Node } from "./fleet";

export class MatchCounts {
  private readonly counts = new WeakMap<Node, MatchCount>();

  constructor(private readonly terms: readonly Term[]) {}

  of(node: Node): MatchCount {
    let count = this.counts.get(node);
    if (count === undefined) this.counts.set(node, (count = countMatches(this.terms, node.gpus)));
    return count;
  }

  hasMatch(node: Node): boolean {
    const { gpus, instances } = this.of(node);
    return gpus + instances > 0;
  }

  total(nodes: Iterable<Node>): MatchCount {
    let [gpus, instances] = [0, 0];
    for (const node of nodes) {
      const count = this.of(node);
      gpus += count.gpus;
      instances += count.instances;
    }
    return { gpus, instances };
  }
}
