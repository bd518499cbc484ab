import { expect, it } from "vitest";
import type { JudgedGpu, Process } from "../../src/feed/types";
import { processRows } from "../../src/state/processes";

const GIB = 1024 ** 3;

function process(pid: number, fields: Partial<Process> = {}): Process {
  return {
    pid,
    pid_is_made: false,
    kind: "compute",
    gpu_memory_bytes: GIB,
    user: "mei",
    uid: null,
    group: null,
    name: "python",
    command: null,
    started_at: 1000,
    busy_percent: 50,
    container: null,
    slurm_job: null,
    condition: null,
    hidden: false,
    cpu_percent: null,
    host_memory_bytes: null,
    pod: null,
    ...fields,
  };
}

/** A GPU that tells what is given here, and nothing else. */
function gpu(index: number, fields: Partial<JudgedGpu> = {}): JudgedGpu {
  const silent = new Proxy({} as JudgedGpu, { get: () => null });
  const told = {
    uuid: `GPU-${index}`,
    uuid_is_made: false,
    index,
    memory_shared: false,
    asleep: false,
    unread: {},
    instances: [],
    processes: [],
    verdict: { state: "free", reason: "not in use", since: 0, notes: [] },
    ...fields,
  };
  return Object.setPrototypeOf(told, silent) as JudgedGpu;
}

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
