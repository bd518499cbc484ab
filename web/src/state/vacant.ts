// The free GPUs of the fleet by node: what a phone shows first.

import type { Fleet, Gpu, Node } from "./fleet";

export interface Vacancy {
  node: Node;
  gpus: Gpu[];
  /** Of the smallest of them; `null` where one cannot tell. */
  mebibytes: number | null;
  /** Since when all of them have been free. */
  since: number;
}

const NAMES = new Intl.Collator("en", { numeric: true });

/** Nodes with free GPUs, those with the most memory a GPU first, then the most GPUs. */
export function vacancies(fleet: Fleet, isShown: (gpu: Gpu) => boolean): Vacancy[] {
  const found: Vacancy[] = [];
  for (const node of fleet.nodes.values()) {
    const gpus = node.gpus.filter((gpu) => gpu.brief.verdict.state === "free" && isShown(gpu));
    if (gpus.length > 0) found.push(vacancy(node, gpus));
  }
  return found.sort(
    (a, b) => (b.mebibytes ?? 0) - (a.mebibytes ?? 0) || b.gpus.length - a.gpus.length || NAMES.compare(a.node.brief.name, b.node.brief.name),
  );
}

function vacancy(node: Node, gpus: Gpu[]): Vacancy {
  const sizes = gpus.map((gpu) => gpu.brief.memory_total_mebibytes);
  return {
    node,
    gpus,
    mebibytes: sizes.includes(null) ? null : Math.min(...(sizes as number[])),
    since: Math.max(...gpus.map((gpu) => gpu.brief.verdict.since)),
  };
}
