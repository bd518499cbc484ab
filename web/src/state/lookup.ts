// Finding a node or GPU of the fleet by id.

import type { VerdictPayload } from "../feed/types";
import type { Fleet, Gpu, Node } from "./fleet";

export function findNode(fleet: Fleet, nodeId: string): Node | undefined {
  for (const node of fleet.nodes.values()) if (node.info.node_id === nodeId) return node;
  return undefined;
}

/** The GPU with this UUID, or with a MIG instance of this UUID. */
export function findGpu(fleet: Fleet, uuid: string): Gpu | undefined {
  for (const node of fleet.nodes.values()) {
    const at = node.info.gpus.findIndex((gpu) => gpu.uuid === uuid || gpu.instances.some((part) => part.uuid === uuid));
    if (at >= 0) return node.gpus[at];
  }
  return undefined;
}

/** The verdict on a GPU of a node, or on one of its instances. */
export function findVerdict({ gpus }: Node, uuid: string): VerdictPayload | undefined {
  for (const { info } of gpus) {
    const found = info.uuid === uuid ? info : info.instances.find((part) => part.uuid === uuid);
    if (found) return found.verdict;
  }
  return undefined;
}
