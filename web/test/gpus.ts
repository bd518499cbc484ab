// Builders of GPUs for tests, from the rows of tests/filter_cases.json.

import type { State } from "../src/feed/state";
import { type Gpu, type Instance, Node } from "../src/state/fleet";
import { node, verdict } from "./builders";

export const REPORTED_AT = 100_000;

export interface GpuRow {
  id: string;
  node: string;
  silent: boolean;
  labels: Record<string, string>;
  driver: string | null;
  site: string | null;
  index: number;
  uuid: string;
  model: string | null;
  state: State;
  instances: { uuid: string; state: State; profile: string | null; users: string[]; total_mebibytes: number; used_mebibytes: number }[];
  users: string[] | null;
  reason: string | null;
  was: string | null;
  total_mebibytes: number | null;
  used_mebibytes: number | null;
  nominal_gigabytes: number | null;
  busy_percent: number | null;
  celsius: number | null;
  watts: number | null;
  idle_seconds: number | null;
}

const USUAL: GpuRow = {
  id: "usual",
  node: "gpu01",
  silent: false,
  labels: {},
  driver: "550.90.07",
  site: null,
  index: 0,
  uuid: "GPU-usual",
  model: "NVIDIA H100 80GB HBM3",
  state: "free",
  instances: [],
  users: [],
  reason: null,
  was: null,
  total_mebibytes: 81_920,
  used_mebibytes: 0,
  nominal_gigabytes: 80,
  busy_percent: 0,
  celsius: 33,
  watts: 70,
  idle_seconds: null,
};

export function gpuOf(fields: Partial<GpuRow>): Gpu {
  const row = { ...USUAL, ...fields };
  const its = {
    ...verdict(row.state),
    users: row.users,
    reason: row.reason,
    was: row.was,
    idle_since: row.idle_seconds === null ? null : REPORTED_AT - row.idle_seconds,
  };
  const instances = row.instances.map((part) => ({
    uuid: part.uuid,
    profile: part.profile,
    memory_total_mebibytes: part.total_mebibytes,
    nominal_gigabytes: part.profile === null ? null : Number(/\.(\d+)gb/.exec(part.profile)?.[1]),
    verdict: { ...verdict(part.state), users: part.users },
  }));
  const info = { uuid: row.uuid, index: row.index, vendor: "nvidia" as const, name: row.model, memory_total_mebibytes: row.total_mebibytes, nominal_gigabytes: row.nominal_gigabytes, verdict: its, instances };
  const parts = instances.map((part, at): Instance => ({ info: part, figures: [null, row.instances[at]?.used_mebibytes ?? null, null, null] }));
  return { node: nodeOf(row), info, figures: [row.busy_percent, row.used_mebibytes, row.celsius, row.watts], instances: parts };
}

function nodeOf(row: GpuRow): Node {
  const info = { ...node(1, []), name: row.node, silent: row.silent, labels: row.labels, driver_version: row.driver, site: row.site };
  return new Node(info, { reportedAt: REPORTED_AT, cpuPercent: null, memoryPercent: null, rows: [] });
}
