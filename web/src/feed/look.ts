// A closer look at one node, as far as the reader may: clocks, processes, faults. Not asked twice within seconds.

import { ask } from "./ask";
import { briefly } from "./briefly";
import type { State } from "./event";

const LOOK_FRESH_MS = 3000;

export interface ProcessInFull {
  pid: number;
  pid_is_made: boolean;
  kind: string;
  gpu_memory_bytes: number | null;
  user: string | null;
  name: string | null;
  command: string | null;
  started_at: number | null;
  busy_percent: number | null;
  container: string | null;
  slurm_job: string | null;
  condition: string | null;
  hidden: boolean;
}

export interface Fault {
  kind: string;
  detail: string;
  remedy: string | null;
  since: number | null;
}

interface Judged {
  uuid: string;
  processes: ProcessInFull[] | null;
  verdict: {
    state: State;
    reason: string;
    since: number;
    was: string | null;
    notes: { kind: string; words: string }[];
    idle_seconds: number | null;
  };
}

export interface InstanceInFull extends Judged {
  profile: string | null;
  memory_used_bytes: number | null;
  memory_total_bytes: number | null;
  busy_percent: number | null;
}

export interface GpuInFull extends Judged {
  power_limit_watts: number | null;
  sm_clock_mhz: number | null;
  sm_clock_max_mhz: number | null;
  memory_clock_mhz: number | null;
  pcie_generation: number | null;
  pcie_width: number | null;
  throttle_reasons: string[] | null;
  ecc_uncorrected: number | null;
  fault: Fault | null;
  instances: InstanceInFull[];
}

export interface NodeInFull {
  node_id: string;
  interval_seconds: number | null;
  gpus: GpuInFull[];
  runs: { name: string; outcome: string; detail: string }[];
}

/** The node in full, at most a few seconds old; `NotGranted` as the hub says it. */
export const look = briefly<NodeInFull>(LOOK_FRESH_MS, (nodeId) => ask(`nodes/${encodeURIComponent(nodeId)}`));
