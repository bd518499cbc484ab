import { expect, it } from "vitest";
import { processRows } from "../../src/state/processes";
import { GIB, gpu, process } from "../details";

it("a process on several GPUs is one row with its total memory", () => {
  const rows = processRows([gpu(0, { processes: [process(1), process(2)] }), gpu(1, { processes: [process(1)] })]);
  expect(rows.map(({ process: { pid }, gpus, memoryBytes }) => [pid, gpus, memoryBytes])).toEqual([[1, [0, 1], 2 * GIB], [2, [0], GIB]]);
});

it("memory that is unknown on one GPU is unknown in total", () => {
  const [row] = processRows([gpu(0, { processes: [process(1)] }), gpu(1, { processes: [process(1, { gpu_memory_bytes: null })] })]);
  expect(row?.memoryBytes).toBe(null);
});

it("processes with generated PIDs are never merged", () => {
  const made = process(9, { pid_is_made: true });
  expect(processRows([gpu(0, { processes: [made] }), gpu(1, { processes: [made] })])).toHaveLength(2);
});
