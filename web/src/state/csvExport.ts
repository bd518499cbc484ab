// CSV files for download: strips, time series, usage.

import type { Figure, Series, Strips, Usages } from "../feed/types";
import { type Cell, formatCsv } from "./csv";

export function stripsCsv({ rows }: Strips): string {
  const lines = rows.flatMap(({ gpu, runs }) =>
    runs.map((run): Cell[] => [gpu.node, gpu.index, gpu.uuid, iso(run.start), iso(run.end), run.state, run.user, run.others, run.busy_percent]),
  );
  return formatCsv([["node", "gpu", "uuid", "from", "until", "state", "user", "others", "busy_percent"], ...lines]);
}

/** One row per point in time; minimum, mean and maximum of each metric. */
export function seriesCsv({ start, grain_seconds: grain, node, gpus }: Series, names: ReadonlyMap<string, string>): string {
  const columns = [
    ...metricColumns("node", node),
    ...Object.entries(gpus).flatMap(([uuid, metrics]) => metricColumns(names.get(uuid) ?? uuid, metrics)),
  ];
  const count = Math.max(0, ...columns.map(({ values }) => values.length));
  const lines = Array.from({ length: count }, (_, at): Cell[] => [iso(start + at * grain), ...columns.map(({ values }) => values[at] ?? null)]);
  return formatCsv([["time", ...columns.map(({ name }) => name)], ...lines]);
}

function metricColumns(prefix: string, metrics: Record<string, Figure>): { name: string; values: readonly Cell[] }[] {
  return Object.entries(metrics).flatMap(([metric, { minimum, mean, maximum }]) => [
    { name: `${prefix} ${metric} min`, values: minimum },
    { name: `${prefix} ${metric} mean`, values: mean },
    { name: `${prefix} ${metric} max`, values: maximum },
  ]);
}

export function usagesCsv({ by, rows }: Usages): string {
  const lines = rows.map(({ name, sums }): Cell[] => [name, sums.gpu_seconds, sums.measured_seconds, sums.busy_seconds, sums.idle_seconds, sums.energy_joules]);
  return formatCsv([[by, "gpu_seconds", "measured_seconds", "busy_seconds", "idle_seconds", "energy_joules"], ...lines]);
}

function iso(seconds: number): string {
  return new Date(1000 * seconds).toISOString();
}
