// What is saved from the page for a spreadsheet: strips, figures over time, sums.

import type { Series, Strips, Told, Usages } from "../feed/history";
import { type Cell, csvText } from "./csv";

export function stripsCsv({ rows }: Strips): string {
  const lines = rows.flatMap(({ gpu, runs }) =>
    runs.map((run): Cell[] => [gpu.node, gpu.index, gpu.uuid, iso(run.start), iso(run.end), run.state, run.user, run.others, run.busy_percent]),
  );
  return csvText([["node", "gpu", "uuid", "from", "until", "state", "user", "others", "busy_percent"], ...lines]);
}

/** A row a moment; of each figure its minimum, mean and maximum. */
export function seriesCsv({ start, grain_seconds: grain, node, gpus }: Series, names: ReadonlyMap<string, string>): string {
  const columns = [
    ...figures("node", node),
    ...Object.entries(gpus).flatMap(([uuid, told]) => figures(names.get(uuid) ?? uuid, told)),
  ];
  const count = Math.max(0, ...columns.map(({ values }) => values.length));
  const lines = Array.from({ length: count }, (_, at): Cell[] => [iso(start + at * grain), ...columns.map(({ values }) => values[at] ?? null)]);
  return csvText([["time", ...columns.map(({ name }) => name)], ...lines]);
}

function figures(whose: string, told: Record<string, Told>): { name: string; values: readonly Cell[] }[] {
  return Object.entries(told).flatMap(([figure, { minimum, mean, maximum }]) => [
    { name: `${whose} ${figure} min`, values: minimum },
    { name: `${whose} ${figure} mean`, values: mean },
    { name: `${whose} ${figure} max`, values: maximum },
  ]);
}

export function usagesCsv({ by, rows }: Usages): string {
  const lines = rows.map(({ name, sums }): Cell[] => [name, sums.gpu_seconds, sums.measured_seconds, sums.busy_seconds, sums.idle_seconds, sums.energy_joules]);
  return csvText([[by, "gpu_seconds", "measured_seconds", "busy_seconds", "idle_seconds", "energy_joules"], ...lines]);
}

function iso(seconds: number): string {
  return new Date(1000 * seconds).toISOString();
}
