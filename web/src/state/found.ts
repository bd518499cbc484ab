// One node or GPU of the fleet, found by its own name.

import type { Verdict } from "../feed/event";
import type { Fleet, Gpu, Node } from "./fleet";

export function nodeWithId(fleet: Fleet, nodeId: string): Node | undefined {
  for (const node of fleet.nodes.values()) if (node.brief.node_id === nodeId) return node;
  return undefined;
}

/** The GPU of that UUID, or the one that has that instance. */
export function gpuWithUuid(fleet: Fleet, uuid: string): Gpu | undefined {
  for (const node of fleet.nodes.values()) {
    const at = node.brief.gpus.findIndex((gpu) => gpu.uuid === uuid || gpu.instances.some((part) => part.uuid === uuid));
    if (at >= 0) return node.gpus[at];
  }
  return undefined;
}

/** How a GPU of a node or one of its instances stands. */
export function verdictOf({ gpus }: Node, uuid: string): Verdict | undefined {
  for (const { brief } of gpus) {
    const found = brief.uuid === uuid ? brief : brief.instances.find((part) => part.uuid === uuid);
    if (found) return found.verdict;
  }
  return undefined;
}
