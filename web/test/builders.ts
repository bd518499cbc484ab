// Builders of fleet data for tests.

import type { State } from "../src/feed/state";
import { STATES } from "../src/feed/state";
import type { FleetEvent } from "../src/feed/stream";
import type { GpuPayload, NodePayload, Summary } from "../src/feed/types";

export function verdict(state: State, users: string[] = []): GpuPayload["verdict"] {
  return { state, since: 1000, reason: null, was: null, users, idle_since: null, notes: [] };
}

export function gpu(index: number, state: State = "free", users: string[] = []): GpuPayload {
  return {
    uuid: `GPU-${index}`,
    index,
    name: "NVIDIA H100 80GB HBM3",
    vendor: "nvidia",
    memory_total_mebibytes: 81_559, nominal_gigabytes: 80,
    verdict: verdict(state, users),
    instances: [],
  };
}

export function node(number: number, gpus: GpuPayload[] = [gpu(0)]): NodePayload {
  return {
    number,
    node_id: `id-${number}`,
    name: `gpu0${number}`,
    silent: false,
    via: "push",
    trouble: null,
    warnings: 0,
    ssh_host: null,
    labels: {},
    driver_version: "550.90.07",
    site: null,
    bookings: [],
    gpus,
  };
}

export function event(parts: Partial<FleetEvent>): FleetEvent {
  return { taken_at: 1000, summary: summary(), nodes: [], removed: [], figures: [], ...parts };
}

export function summary(): Summary {
  const counts = Object.fromEntries(STATES.map((state) => [state, 0])) as Record<State, number>;
  return { ...counts, gpus: 0, nodes: 0, nodes_reporting: 0, free_instances: 0 };
}
