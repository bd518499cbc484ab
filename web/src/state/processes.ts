// The processes of a node: one that works on several GPUs is told once.

import type { GpuWhole, NodeWhole, ProcessWhole } from "../feed/node";

export interface ProcessRow {
  readonly process: ProcessWhole;
  /** The numbers of the GPUs that it is on. */
  readonly gpus: readonly number[];
  /** Its memory on all of them; `null` when that is not known of one. */
  readonly memoryBytes: number | null;
}

/** Every process, those on the first GPUs first. */
export function processRows(gpus: readonly GpuWhole[]): ProcessRow[] {
  const rows = new Map<string, ProcessRow>();
  for (const gpu of gpus) {
    for (const process of processesOn(gpu)) {
      const key = process.pid_is_made ? `${gpu.uuid} ${process.pid}` : String(process.pid);
      rows.set(key, joined(rows.get(key), process, gpu.index));
    }
  }
  return [...rows.values()];
}

/** GPUs whose processes could not be read. */
export function unreadable(node: NodeWhole): number[] {
  return node.gpus.filter((gpu) => [gpu, ...gpu.instances].every(({ processes }) => processes === null)).map(({ index }) => index);
}

function processesOn(gpu: GpuWhole): ProcessWhole[] {
  return [gpu, ...gpu.instances].flatMap(({ processes }) => (processes ?? []) as ProcessWhole[]);
}

function joined(before: ProcessRow | undefined, process: ProcessWhole, gpu: number): ProcessRow {
  const memory = process.gpu_memory_bytes;
  if (!before) return { process, gpus: [gpu], memoryBytes: memory };
  const known = before.memoryBytes !== null && memory !== null;
  const gpus = before.gpus.includes(gpu) ? before.gpus : [...before.gpus, gpu];
  return { process: before.process, gpus, memoryBytes: known ? (before.memoryBytes ?? 0) + memory : null };
}
