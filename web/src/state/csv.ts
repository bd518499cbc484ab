// The CSV encoder (RFC 4180), and the table as CSV. Unknown values are empty, and no cell can be a formula.

import type { Gpu } from "./fleet";
import { formatLabels } from "./tableSort";

export type Cell = string | number | null;

// Spreadsheets treat a cell that starts like this as a formula; the same rule as wire/csv.py.
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;

const COLUMNS: Record<string, (gpu: Gpu) => Cell> = {
  node: ({ node }) => node.info.name,
  gpu: ({ info }) => info.index,
  state: ({ info }) => info.verdict.state,
  since: ({ info }) => new Date(1000 * info.verdict.since).toISOString(),
  users: ({ info }) => info.verdict.users?.join(", ") ?? null,
  load_percent: ({ figures }) => figures[0],
  memory_used_mebibytes: ({ figures }) => figures[1],
  memory_total_mebibytes: ({ info }) => info.memory_total_mebibytes,
  temperature_celsius: ({ figures }) => figures[2],
  power_watts: ({ figures }) => figures[3],
  model: ({ info }) => info.name,
  driver_version: ({ node }) => node.info.driver_version,
  labels: ({ node }) => formatLabels(node.info.labels),
  uuid: ({ info }) => info.uuid,
  reason: ({ info }) => info.verdict.reason ?? info.verdict.was,
};

export function gpusCsv(rows: readonly Gpu[]): string {
  return formatCsv([Object.keys(COLUMNS), ...rows.map((gpu) => Object.values(COLUMNS).map((column) => column(gpu)))]);
}

export function formatCsv(lines: readonly (readonly Cell[])[]): string {
  return lines.map((line) => `${line.map(escapeCell).join(",")}\r\n`).join("");
}

function escapeCell(cell: Cell): string {
  if (cell === null || typeof cell === "number") return String(cell ?? "");
  const safe = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
