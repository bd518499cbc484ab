// The free GPUs of the fleet by node: the first list on a phone.

import type { Fleet, Gpu, Instance, Node } from "./fleet";

/** A node with its free GPUs. */
export interface FreeNode {
  node: Node;
  gpus: Gpu[];
  /** The size that the smallest of them is sold with, and its memory; `null` if one is not known. */
  gigabytes: number | null;
  mebibytes: number | null;
  /** Since when all of them have been free. */
  since: number;
}

/** Who has booked a free GPU, so that it is not offered to others. */
export function bookedBy({ node, info }: Gpu): string | undefined {
  return node.info.bookings.find(({ kept }) => kept.includes(info.uuid))?.owner;
}

const NAMES = new Intl.Collator("en", { numeric: true });

/** Nodes with free whole GPUs, those with the most memory per GPU first, then the most GPUs. */
export function freeByNode(fleet: Fleet, matches: (gpu: Gpu) => boolean): FreeNode[] {
  const nodes: FreeNode[] = [];
  for (const node of fleet.nodes.values()) {
    const gpus = node.gpus.filter((gpu) => gpu.info.verdict.state === "free" && gpu.instances.length === 0 && matches(gpu));
    if (gpus.length > 0) nodes.push(freeNode(node, gpus));
  }
  return nodes.sort(
    (a, b) => (b.mebibytes ?? 0) - (a.mebibytes ?? 0) || b.gpus.length - a.gpus.length || NAMES.compare(a.node.info.name, b.node.info.name),
  );
}

/** A GPU of which some MIG instances are free. */
export interface FreeInstances {
  gpu: Gpu;
  instances: Instance[];
  /** Since when all of them have been free. */
  since: number;
}

/** GPUs with free MIG instances, by node and index. */
export function freeInstances(fleet: Fleet, matches: (gpu: Gpu) => boolean): FreeInstances[] {
  const found: FreeInstances[] = [];
  for (const node of fleet.nodes.values()) {
    for (const gpu of node.gpus) {
      const instances = gpu.instances.filter(({ info }) => info.verdict.state === "free");
      if (instances.length > 0 && matches(gpu)) found.push({ gpu, instances, since: Math.max(...instances.map(({ info }) => info.verdict.since)) });
    }
  }
  return found.sort((a, b) => NAMES.compare(a.gpu.node.info.name, b.gpu.node.info.name) || a.gpu.info.index - b.gpu.info.index);
}

function freeNode(node: Node, gpus: Gpu[]): FreeNode {
  const smallest = (sizes: (number | null)[]): number | null => (sizes.includes(null) ? null : Math.min(...(sizes as number[])));
  return {
    node,
    gpus,
    gigabytes: smallest(gpus.map(({ info }) => info.nominal_gigabytes)),
    mebibytes: smallest(gpus.map(({ info }) => info.memory_total_mebibytes)),
    since: Math.max(...gpus.map((gpu) => gpu.info.verdict.since)),
  };
}
