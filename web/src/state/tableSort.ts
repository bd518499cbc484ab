// Sorting of the table. Unknown values (`null`) always come last.

import type { State } from "../feed/state";
import { naturalKey } from "./arrange";
import type { Gpu } from "./fleet";

export const STATES_BY_ATTENTION: readonly State[] = ["broken", "ghost", "held", "free", "leased", "busy", "unknown"];

export type SortKey =
  | "state" | "node" | "gpu" | "model" | "who" | "load" | "memory" | "temperature" | "power" | "since" | "why" | "driver" | "labels" | "uuid";

/** The columns; not all of them can be sorted. */
export type ColumnKey = SortKey | "process" | "trend";

/** Column and direction. Numbers start descending, everything else ascending. */
export interface TableSort {
  readonly key: SortKey;
  readonly descending: boolean;
}

export const DEFAULT_SORT: TableSort = { key: "state", descending: false };
export const NUMERIC_COLUMNS: readonly SortKey[] = ["load", "memory", "temperature", "power", "since"];

type Value = string | number | null;

const VALUES: Record<SortKey, (gpu: Gpu) => Value> = {
  state: ({ info }) => STATES_BY_ATTENTION.indexOf(info.verdict.state),
  node: () => 0, // ties are broken by node and index anyway
  gpu: ({ info }) => info.index,
  model: ({ info }) => textKey(info.name),
  who: ({ info }) => textKey(info.verdict.users?.[0] ?? null),
  load: ({ figures }) => figures[0],
  memory: ({ figures }) => figures[1],
  temperature: ({ figures }) => figures[2],
  power: ({ figures }) => figures[3],
  since: ({ info }) => -info.verdict.since,
  why: ({ info }) => textKey(info.verdict.reason ?? info.verdict.was),
  driver: ({ node }) => textKey(node.info.driver_version),
  labels: ({ node }) => textKey(formatLabels(node.info.labels) || null),
  uuid: ({ info }) => info.uuid,
};

/** The sort order after a click on a column title: reversed, or the default of the column. */
export function toggleSort(sort: TableSort, key: SortKey): TableSort {
  return { key, descending: sort.key === key ? !sort.descending : NUMERIC_COLUMNS.includes(key) };
}

/** Labels in one cell: "rack=a room=2". */
export function formatLabels(labels: Record<string, string>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

/** Keeps the order from one event to the next: sorting an almost sorted list is fast. */
export class StableSort {
  private order: string[] = [];

  /** Sort the GPUs; if `frozen`, keep the order and append new ones. */
  sort(gpus: Iterable<Gpu>, sort: TableSort, frozen = false): Gpu[] {
    const byUuid = new Map<string, Gpu>();
    for (const gpu of gpus) byUuid.set(gpu.info.uuid, gpu);
    const rows: Gpu[] = [];
    for (const uuid of this.order) {
      const gpu = byUuid.get(uuid);
      if (gpu && byUuid.delete(uuid)) rows.push(gpu);
    }
    rows.push(...byUuid.values());
    const sorted = frozen ? rows : sortRows(rows, sort);
    this.order = sorted.map((gpu) => gpu.info.uuid);
    return sorted;
  }
}

function sortRows(rows: readonly Gpu[], { key, descending }: TableSort): Gpu[] {
  const value = VALUES[key];
  const keys = rows.map((gpu) => ({ gpu, value: value(gpu), name: textKey(gpu.node.info.name) ?? "" }));
  keys.sort((a, b) => byValue(a.value, b.value, descending) || byNode(a, b, descending && key === "node"));
  return keys.map(({ gpu }) => gpu);
}

/** Unknown values come last in both directions. */
function byValue(a: Value, b: Value, descending: boolean): number {
  if (a === b) return 0;
  if (a === null || b === null) return a === null ? 1 : -1;
  return a < b === descending ? 1 : -1;
}

interface Located {
  readonly gpu: Gpu;
  readonly name: string;
}

function byNode(a: Located, b: Located, descending: boolean): number {
  if (a.name !== b.name) return a.name < b.name === descending ? 1 : -1;
  return a.gpu.node.info.number - b.gpu.node.info.number || a.gpu.info.index - b.gpu.info.index;
}

// Natural sort keys are cached: they are needed for every GPU at every event.
const textKeys = new Map<string, string>();
const MAX_CACHED = 50_000;

function textKey(text: string | null): string | null {
  if (text === null) return null;
  let key = textKeys.get(text);
  if (key === undefined) {
    if (textKeys.size > MAX_CACHED) textKeys.clear();
    textKeys.set(text, (key = naturalKey(text)));
  }
  return key;
}
