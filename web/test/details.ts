// Builders of the details of one node for tests: its GPUs, processes and series.

import type { Reading } from "../src/feed/state";
import type { Figure, Host, JudgedGpu, NodeView, Process, Series } from "../src/feed/types";

export const GIB = 1024 ** 3;
export const HOST: Host = { addresses: [], interfaces: {}, kernel: null, driver_version: null, cuda_version: null, booted_at: null, cpu_count: null, cpu_percent: null, load_1_minute: null, load_5_minutes: null, load_15_minutes: null, memory_used_bytes: null, memory_total_bytes: null, pid_namespace: null };
export const SPAN = { start: 1000, end: 1030 };

/** A GPU of which all is unknown but what is given here. */
export function gpu(index: number, fields: Partial<JudgedGpu> = {}): JudgedGpu {
  const unknown = new Proxy({} as JudgedGpu, { get: () => null });
  const known = {
    uuid: `GPU-${index}`,
    uuid_is_made: false,
    index,
    memory_shared: false,
    asleep: false,
    unread: {},
    instances: [],
    processes: [],
    more_processes: 0,
    verdict: { state: "free", reason: "not in use", since: 0, notes: [] },
    ...fields,
  };
  return Object.setPrototypeOf(known, unknown) as JudgedGpu;
}

export function node(gpus: JudgedGpu[], fields: Partial<NodeView> = {}): NodeView {
  return {
    node_id: "id",
    site: null,
    name: "gpu01",
    taken_at: 0,
    age_seconds: 1,
    silent: false,
    via: "push",
    trouble: null,
    clock_skew_seconds: null,
    missing_reports: 0,
    ssh_host: null,
    labels: {},
    interval_seconds: 1,
    sequence: 0,
    boot_id: null,
    agent_version: null,
    host: HOST,
    runs: [],
    bookings: [],
    gpus,
    ...fields,
  };
}

export function process(pid: number, fields: Partial<Process> = {}): Process {
  return {
    pid,
    pid_is_made: false, parent_pid: null,
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

/** A figure whose minimum, mean and maximum are the same. */
export function figure(...readings: Reading[]): Figure {
  return { minimum: readings, mean: readings, maximum: readings };
}

export const SERIES: Series = {
  start: 1000,
  grain_seconds: 10,
  node: { cpu_percent: figure(10, null, 30), memory_percent: figure(null, null, null) },
  gpus: {
    "GPU-0": { busy_percent: figure(0, null, 90), memory_used_bytes: figure(2 ** 30, 2 ** 30, 2 ** 31), power_watts: figure(70, 80, 350), temperature_celsius: figure(30, 31, 32) },
    "GPU-1": { busy_percent: figure(5, 6, 7), memory_used_bytes: figure(0, 0, 0), power_watts: figure(null, null, null), temperature_celsius: figure(90, 91, 92) },
  },
};
