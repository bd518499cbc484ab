// What the hub's stream says; the twin of wire/event.py, which explains each field.

export const STATES = ["free", "leased", "busy", "held", "ghost", "broken", "unknown"] as const;
export type State = (typeof STATES)[number];

export interface Verdict {
  state: State;
  since: number;
  reason: string | null;
  was: string | null;
  users: string[] | null;
  idle_since: number | null;
  notes: string[];
}

export interface InstanceBrief {
  uuid: string;
  profile: string | null;
  memory_total_mebibytes: number | null;
  verdict: Verdict;
}

export interface GpuBrief {
  uuid: string;
  index: number;
  name: string | null;
  memory_total_mebibytes: number | null;
  verdict: Verdict;
  instances: InstanceBrief[];
}

export interface NodeBrief {
  number: number;
  node_id: string;
  name: string;
  silent: boolean;
  via: string | null;
  trouble: string | null;
  warnings: number;
  labels: Record<string, string>;
  driver_version: string | null;
  gpus: GpuBrief[];
}

export type Summary = Record<State, number> & {
  gpus: number;
  nodes: number;
  nodes_reporting: number;
};

export type Same = "=";
export type Figure = number | null;
/** Busy percent, mebibytes in use, degrees, watts. */
export type Row = [Figure, Figure, Figure, Figure];
export type MovedRow = (Figure | Same)[] | Same;
/** Number of the node, when it was heard, percent of its CPU and memory, a row a GPU or instance. */
export type Moved = [number, number | null, Figure | Same, Figure | Same, MovedRow[]];

export interface FleetEvent {
  taken_at: number;
  summary: Summary;
  nodes: NodeBrief[];
  removed: number[];
  figures: Moved[];
}
