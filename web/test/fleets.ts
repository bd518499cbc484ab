// Builders of fleets for tests.

import type { State } from "../src/feed/state";
import type { GpuPayload, NodePayload, VerdictPayload } from "../src/feed/types";
import { type Gpu, type GpuFigures, Fleet } from "../src/state/fleet";
import { event, gpu, node } from "./builders";

const VERDICT = { since: 10, reason: null, was: null, users: null, idle_since: null, notes: [] };
/** Three nodes whose GPUs differ in state and memory. */
export const FLEET = fleetOf({ a1: [sizedGpu(0, "busy", 80), sizedGpu(1, "free", 80)], a2: [sizedGpu(0, "free", 40), sizedGpu(1, "free", 40)], a10: [sizedGpu(3, "free", 40)] });

export function sizedGpu(index: number, state: State, mebibytes: number | null): GpuPayload {
  return { uuid: `GPU-${index}`, index, vendor: "nvidia", name: "NVIDIA H100", memory_total_mebibytes: mebibytes, nominal_gigabytes: 80, verdict: { ...VERDICT, state, since: 10 + index }, instances: [] };
}

/** A fleet of these nodes, by name. */
export function fleetOf(nodes: Record<string, GpuPayload[]>): Fleet {
  const fleet = new Fleet();
  const infos = Object.entries(nodes).map(([name, gpus], number) => ({
    number, node_id: name, name, silent: false, via: null, trouble: null, warnings: 0, ssh_host: null, labels: {}, driver_version: null, site: null, bookings: [], gpus,
  }));
  fleet.apply("fleet", {
    taken_at: 100,
    summary: { free: 0, leased: 0, busy: 0, held: 0, ghost: 0, broken: 0, unknown: 0, gpus: 0, nodes: 0, nodes_reporting: 0, free_instances: 0 },
    nodes: infos,
    removed: [],
    figures: infos.map(({ number, gpus }) => [number, 99, null, null, gpus.map(() => [0, 0, 30, 60])]),
  });
  return fleet;
}

/** A fleet of one node, and the figures of its GPUs. */
export function fleetWith(info: NodePayload, ...figures: GpuFigures[]): Fleet {
  const fleet = new Fleet();
  fleet.apply("fleet", event({ nodes: [info], figures: [[info.number, 990, null, null, figures]] }));
  return fleet;
}

/** The GPU of a node that has no other. */
export function singleGpu(info: Partial<GpuPayload>, verdict: Partial<VerdictPayload>, figures: GpuFigures = [97, 74_752, 65, 365]): Gpu {
  const whole = { ...gpu(0, "busy"), ...info };
  const fleet = fleetWith(node(1, [{ ...whole, verdict: { ...whole.verdict, ...verdict } }]), figures);
  const [found] = [...fleet.nodes.values()].flatMap((each) => each.gpus);
  if (!found) throw new Error("a node without its GPU");
  return found;
}
