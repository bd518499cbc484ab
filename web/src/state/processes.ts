// The processes of a node; a process on several GPUs is one row.

import type { JudgedGpu, NodeView, Process } from "../feed/types";

export interface ProcessRow {
  readonly process: Process;
  /** The indices of its GPUs. */
  readonly gpus: readonly number[];
  /** Its memory on all GPUs; `null` if it is unknown on one. */
  readonly memoryBytes: number | null;
}

/** One row per process on these GPUs of one node, in the order of the GPUs. */
export function processRows(gpus: readonly JudgedGpu[]): ProcessRow[] {
  const rows = new Map<string, ProcessRow>();
  for (const gpu of gpus) {
    for (const process of processesOn(gpu)) {
      const key = process.pid_is_made ? `${gpu.uuid} ${process.pid}` : String(process.pid);
      rows.set(key, merge(rows.get(key), process, gpu.index));
    }
  }
  return [...rows.values()];
}

/** The indices of the GPUs whose processes could not be read. */
export function unreadableGpus(node: NodeView): number[] {
  return node.gpus.filter((gpu) => [gpu, ...gpu.instances].every(({ processes }) => processes === null)).map(({ index }) => index);
}

function processesOn(gpu: JudgedGpu): Process[] {
  return [gpu, ...gpu.instances].flatMap(({ processes }) => processes ?? []);
}

function merge(before: ProcessRow | undefined, process: Process, gpu: number): ProcessRow {
  const memory = process.gpu_memory_bytes;
  if (!before) return { process, gpus: [gpu], memoryBytes: memory };
  const known = before.memoryBytes !== null && memory !== null;
  const gpus = before.gpus.includes(gpu) ? before.gpus : [...before.gpus, gpu];
  return { process: before.process, gpus, memoryBytes: known ? (before.memoryBytes ?? 0) + memory : null };
}
