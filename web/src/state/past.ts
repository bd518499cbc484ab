// The fleet of a past moment, in the words of the stream: so that every view shows it as it shows the present.

import type { Figure, FleetEvent, GpuBrief, InstanceBrief, Moved, NodeBrief, Row, State, Summary, Verdict } from "../feed/event";
import type { GpuWhole, NodeWhole } from "../feed/node";
import type { InstanceInFull } from "../feed/look";

const MEBI = 1024 * 1024;
/** States that need no reason: the stream gives none either. */
const PLAIN: readonly State[] = ["free", "busy", "held"];

/** The twin of model/fleet.py's `FleetView`. */
export interface FleetView {
  taken_at: number;
  summary: Summary;
  nodes: NodeWhole[];
}

/** The whole fleet as one event; nodes that are known now keep their numbers, so that rows keep their places. */
export function eventOf(view: FleetView, numbers: ReadonlyMap<string, number>): FleetEvent {
  let next = -1;
  const numbered = view.nodes.map((node) => ({ node, number: numbers.get(node.node_id) ?? next-- }));
  return {
    taken_at: view.taken_at,
    summary: view.summary,
    nodes: numbered.map(({ node, number }) => briefOf(node, number, view.taken_at)),
    removed: [],
    figures: numbered.map(({ node, number }) => figuresOf(node, number, view.taken_at)),
  };
}

function briefOf(node: NodeWhole, number: number, at: number): NodeBrief {
  return {
    number,
    node_id: node.node_id,
    name: node.name,
    silent: node.silent,
    via: node.via,
    trouble: node.trouble,
    warnings: 0,
    labels: node.labels,
    driver_version: node.host.driver_version,
    gpus: node.gpus.map((gpu) => gpuBrief(gpu, at)),
  };
}

function gpuBrief(gpu: GpuWhole, at: number): GpuBrief {
  return {
    uuid: gpu.uuid,
    index: gpu.index,
    name: gpu.name,
    memory_total_mebibytes: mebibytes(gpu.memory_total_bytes),
    verdict: verdictOf(gpu, at),
    instances: gpu.instances.map((part): InstanceBrief => ({
      uuid: part.uuid,
      profile: part.profile,
      memory_total_mebibytes: mebibytes(part.memory_total_bytes),
      verdict: verdictOf(part, at),
    })),
  };
}

function verdictOf({ verdict, processes }: Pick<GpuWhole, "verdict" | "processes">, at: number): Verdict {
  const { state, since, reason, was, notes, idle_seconds: idle } = verdict;
  return {
    state,
    since,
    reason: PLAIN.includes(state) ? null : reason,
    was,
    users: processes === null ? null : [...new Set(processes.map(({ user }) => user).filter((user) => user !== null))],
    idle_since: idle === null ? null : at - idle,
    notes: notes.map(({ kind }) => kind),
  };
}

function figuresOf(node: NodeWhole, number: number, at: number): Moved {
  const { host } = node;
  const memory = host.memory_used_bytes === null || !host.memory_total_bytes ? null : (100 * host.memory_used_bytes) / host.memory_total_bytes;
  const heardAt = node.age_seconds === null ? null : at - node.age_seconds;
  return [number, heardAt, rounded(host.cpu_percent), rounded(memory), node.gpus.flatMap((gpu) => [gpuRow(gpu), ...gpu.instances.map(partRow)])];
}

function gpuRow(gpu: GpuWhole): Row {
  return [rounded(gpu.busy_percent), mebibytes(gpu.memory_used_bytes), rounded(gpu.temperature_celsius), rounded(gpu.power_watts)];
}

function partRow(part: InstanceInFull): Row {
  return [rounded(part.busy_percent), mebibytes(part.memory_used_bytes), null, null];
}

function rounded(figure: Figure): Figure {
  return figure === null ? null : Math.round(figure);
}

function mebibytes(bytes: number | null): number | null {
  return bytes === null ? null : Math.round(bytes / MEBI);
}
