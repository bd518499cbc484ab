// The table for a spreadsheet: RFC 4180 text in which what is not known is empty and no cell is a formula.

import { labelsOf } from "./columns";
import type { Gpu } from "./fleet";

export type Cell = string | number | null;

// A spreadsheet takes a cell that starts so for a formula; the same as wire/csv.py.
const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;

const COLUMNS: Record<string, (gpu: Gpu) => Cell> = {
  node: ({ node }) => node.brief.name,
  gpu: ({ brief }) => brief.index,
  state: ({ brief }) => brief.verdict.state,
  since: ({ brief }) => new Date(1000 * brief.verdict.since).toISOString(),
  users: ({ brief }) => brief.verdict.users?.join(", ") ?? null,
  load_percent: ({ figures }) => figures[0],
  memory_used_mebibytes: ({ figures }) => figures[1],
  memory_total_mebibytes: ({ brief }) => brief.memory_total_mebibytes,
  temperature_celsius: ({ figures }) => figures[2],
  power_watts: ({ figures }) => figures[3],
  model: ({ brief }) => brief.name,
  driver_version: ({ node }) => node.brief.driver_version,
  labels: ({ node }) => labelsOf(node.brief.labels),
  uuid: ({ brief }) => brief.uuid,
  reason: ({ brief }) => brief.verdict.reason ?? brief.verdict.was,
};

export function csv(rows: readonly Gpu[]): string {
  return csvText([Object.keys(COLUMNS), ...rows.map((gpu) => Object.values(COLUMNS).map((column) => column(gpu)))]);
}

export function csvText(lines: readonly (readonly Cell[])[]): string {
  return lines.map((line) => `${line.map(written).join(",")}\r\n`).join("");
}

function written(cell: Cell): string {
  if (cell === null || typeof cell === "number") return String(cell ?? "");
  const safe = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
