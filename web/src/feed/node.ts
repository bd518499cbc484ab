// One node with all that the hub tells of it; the twin of model/fleet.py.

import { ask } from "./ask";
import type { GpuInFull, ProcessInFull } from "./look";

export interface ProcessWhole extends ProcessInFull {
  cpu_percent: number | null;
  host_memory_bytes: number | null;
  pod: string | null;
}

export interface GpuWhole extends GpuInFull {
  uuid_is_made: boolean;
  index: number;
  vendor: string;
  name: string | null;
  pci_bus_id: string | null;
  memory_used_bytes: number | null;
  memory_total_bytes: number | null;
  memory_shared: boolean;
  busy_percent: number | null;
  memory_busy_percent: number | null;
  encoder_percent: number | null;
  decoder_percent: number | null;
  temperature_celsius: number | null;
  fan_percent: number | null;
  power_watts: number | null;
  memory_clock_max_mhz: number | null;
  performance_state: string | null;
  ecc_corrected: number | null;
  pcie_generation_max: number | null;
  pcie_width_max: number | null;
  pcie_rx_bytes_per_second: number | null;
  pcie_tx_bytes_per_second: number | null;
  persistence: boolean | null;
  compute_mode: string | null;
  mig_mode: boolean | null;
  asleep: boolean;
  unread: Record<string, string>;
}

export interface Host {
  addresses: string[];
  kernel: string | null;
  driver_version: string | null;
  cuda_version: string | null;
  booted_at: number | null;
  cpu_count: number | null;
  cpu_percent: number | null;
  load_1_minute: number | null;
  memory_used_bytes: number | null;
  memory_total_bytes: number | null;
}

export interface CollectorRun {
  name: string;
  outcome: "ok" | "absent" | "failed";
  seconds: number;
  detail: string;
}

export interface NodeWhole {
  node_id: string;
  name: string;
  age_seconds: number | null;
  silent: boolean;
  via: string | null;
  trouble: string | null;
  clock_skew_seconds: number | null;
  missing_reports: number;
  labels: Record<string, string>;
  interval_seconds: number | null;
  agent_version: string | null;
  host: Host;
  runs: CollectorRun[];
  gpus: GpuWhole[];
}

export function nodeOf(nodeId: string, signal: AbortSignal): Promise<NodeWhole> {
  return ask(`nodes/${encodeURIComponent(nodeId)}`, signal);
}
