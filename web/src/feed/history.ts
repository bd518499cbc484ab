// What the hub remembers; the twins of model/history.py, which explains each field.

import { ask } from "./ask";
import type { Figure, State } from "./event";

export interface GpuOfNode {
  uuid: string;
  node_id: string;
  node: string;
  index: number;
  model: string | null;
  memory_total_bytes: number | null;
  parent: string | null;
}

export interface Run {
  start: number;
  end: number;
  state: State;
  user: string;
  others: number;
  busy_percent: number | null;
}

export interface Strip {
  gpu: GpuOfNode;
  runs: Run[];
}

export interface Strips {
  start: number;
  end: number;
  columns: number;
  rows: Strip[];
}

export interface Told {
  minimum: Figure[];
  mean: Figure[];
  maximum: Figure[];
}

export type NodeFigure = "cpu_percent" | "memory_percent";
export type GpuFigure = "busy_percent" | "memory_used_bytes" | "power_watts" | "temperature_celsius" | "sm_clock_mhz";

export interface Series {
  start: number;
  grain_seconds: number;
  node: Partial<Record<NodeFigure, Told>>;
  gpus: Record<string, Partial<Record<GpuFigure, Told>>>;
}

export interface Sums {
  gpu_seconds: number;
  measured_seconds: number;
  busy_seconds: number;
  idle_seconds: number;
  energy_joules: number;
}

export interface Usage {
  name: string;
  sums: Sums;
  daily: number[];
}

export const USAGE_BY = ["user", "group", "node", "model"] as const;
export type UsageBy = (typeof USAGE_BY)[number];

export interface Usages {
  start: number;
  end: number;
  by: string;
  rows: Usage[];
  total: Sums;
  by_state: Partial<Record<State, number>>;
}

export interface Moment {
  at: number;
  nodes: number;
  nodes_reporting: number;
  gpus: Partial<Record<State, number>>;
}

export interface Gap {
  start: number;
  end: number | null;
  why: string;
}

export interface Ribbon {
  start: number;
  end: number;
  moments: Moment[];
  gaps: Gap[];
}

export interface Holder {
  pid: number;
  user: string;
  name: string | null;
  command: string | null;
  container: string | null;
  slurm_job: string | null;
}

export interface Occupancy {
  holder: Holder;
  start: number;
  end: number | null;
  certain: boolean;
  sums: Sums;
  mean_memory_bytes: number | null;
  peak_memory_bytes: number | null;
}

export interface JobPart {
  gpu: GpuOfNode;
  occupancy: Occupancy;
}

/** In a list of jobs it comes without its parts. */
export interface Job {
  id: string;
  user: string;
  command: string | null;
  start: number;
  end: number | null;
  gpus: number;
  sums: Sums;
  certain: boolean;
  places: string[];
  advice: string[];
  parts: JobPart[];
}

/** As much of model/history_responses.py's `Kept` as the page wants: before `oldest` nothing is known. */
export interface Kept {
  oldest: number | null;
}

/** From when to when, in seconds since 1970 by the hub's clock. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export function stripsOf(span: Span, columns: number, only: { node?: string; filter?: string }, signal?: AbortSignal): Promise<Strips> {
  return asked("strips", span, { columns, ...only }, signal);
}

export function seriesOf(nodeId: string, span: Span, points: number, signal?: AbortSignal): Promise<Series> {
  return asked(`series/${encodeURIComponent(nodeId)}`, span, { points }, signal);
}

export function ribbonOf(span: Span, columns: number, signal: AbortSignal): Promise<Ribbon> {
  return asked("ribbon", span, { columns }, signal);
}

export function usagesOf(span: Span, by: UsageBy, daily: boolean, signal: AbortSignal): Promise<Usages> {
  return asked("usage", span, { by, ...(daily && { daily: "true" }) }, signal);
}

export async function jobsOf(span: Span, user: string, signal: AbortSignal): Promise<Job[]> {
  return (await asked<{ rows: Job[] }>("jobs", span, { user }, signal)).rows;
}

export function keptOf(signal: AbortSignal): Promise<Kept> {
  return ask("history/state", signal);
}

export function jobOf(id: string, signal: AbortSignal): Promise<Job> {
  return ask(`history/jobs/${encodeURIComponent(id)}`, signal);
}

function asked<T>(what: string, { start, end }: Span, rest: Record<string, string | number>, signal?: AbortSignal): Promise<T> {
  const words = Object.entries<string | number>({ since: Math.round(start), until: Math.round(end), ...rest }).filter(([, value]) => value !== "");
  return ask(`history/${what}?${new URLSearchParams(words.map(([name, value]) => [name, String(value)]))}`, signal);
}
