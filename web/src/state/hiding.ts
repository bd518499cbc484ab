// Nodes without a match are hidden in a fleet that is too large to look through; in a small one they are dimmed.

import { type Group, isSame } from "./arrange";

const MIN_NODES = 40;

export function hidesNodes(nodes: number): boolean {
  return nodes >= MIN_NODES;
}

/** The groups without the nodes that are not `shown`. Returns `before` itself if it is the same. */
export function withoutHidden(groups: readonly Group[], shown: (number: number) => boolean, before: readonly Group[] = []): readonly Group[] {
  const left = groups.map((group) => ({ ...group, numbers: group.numbers.filter(shown), nodes: group.numbers.length }));
  const result = left.filter((group) => group.numbers.length > 0);
  return isSame(result, before) ? before : result;
}

/** How many nodes these groups have; one may be in several. */
export function nodeCount(groups: readonly Group[]): number {
  return new Set(groups.flatMap((group) => group.numbers)).size;
}
