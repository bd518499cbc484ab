// Requests for history: strips, series, usage, jobs.

import { get } from "./client";
import type { GpuPeriods, Job, Jobs, Periods, Ribbon, Series, StorageStatus, Strips, Usages } from "./types";

/** Names of the series of a node and of a GPU. */
export type NodeMetric = "cpu_percent" | "memory_percent";
export type GpuMetric = "busy_percent" | "memory_used_bytes" | "power_watts" | "temperature_celsius" | "sm_clock_mhz" | "throttled_percent";

export const USAGE_BY = ["user", "group", "node", "model"] as const;
export type UsageBy = (typeof USAGE_BY)[number];

/** A time span, in seconds since 1970 by the hub's clock. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

export function fetchStrips(span: Span, columns: number, only: { node?: string; filter?: string }, signal?: AbortSignal): Promise<Strips> {
  return getHistory("strips", span, { columns, ...only }, signal);
}

export function fetchSeries(nodeId: string, span: Span, points: number, signal?: AbortSignal): Promise<Series> {
  return getHistory(`series/${encodeURIComponent(nodeId)}`, span, { points }, signal);
}

/** The states of one GPU and of each of its MIG instances as intervals, the oldest first. */
export async function fetchPeriods(nodeId: string, uuid: string, span: Span, signal?: AbortSignal): Promise<GpuPeriods[]> {
  const { rows } = await getHistory<Periods>("periods", span, { node: nodeId, gpu: uuid }, signal);
  return rows.filter(({ gpu }) => gpu.node_id === nodeId);
}

export function fetchRibbon(span: Span, columns: number, signal: AbortSignal): Promise<Ribbon> {
  return getHistory("ribbon", span, { columns }, signal);
}

export function fetchUsage(span: Span, by: UsageBy, daily: boolean, signal: AbortSignal): Promise<Usages> {
  return getHistory("usage", span, { by, ...(daily && { daily: "true" }) }, signal);
}

export async function fetchJobs(span: Span, user: string, signal: AbortSignal): Promise<Job[]> {
  return (await getHistory<Jobs>("jobs", span, { user }, signal)).rows;
}

export function fetchHistoryState(signal: AbortSignal): Promise<StorageStatus> {
  return get("history/state", signal);
}

export function fetchJob(id: string, signal: AbortSignal): Promise<Job> {
  return get(`history/jobs/${encodeURIComponent(id)}`, signal);
}

function getHistory<T>(path: string, { start, end }: Span, rest: Record<string, string | number>, signal?: AbortSignal): Promise<T> {
  const parameters = Object.entries<string | number>({ since: Math.round(start), until: Math.round(end), ...rest });
  const given = parameters.filter(([, value]) => value !== "").map(([name, value]) => [name, String(value)]);
  return get(`history/${path}?${new URLSearchParams(given)}`, signal);
}
