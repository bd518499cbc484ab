// The columns of the table: what each holds of a GPU, as a value to sort by. `null` is not known.

import type { State } from "../feed/event";
import { naturalKey } from "./arrange";
import type { Gpu } from "./fleet";

export const ATTENTION: readonly State[] = ["broken", "ghost", "held", "free", "leased", "busy", "unknown"];

export type Key =
  | "state" | "node" | "gpu" | "model" | "who" | "load" | "memory" | "temperature" | "power" | "since" | "why" | "driver" | "labels" | "uuid";

/** What is sorted by; figures start with the largest, all else with the first. */
export interface Sort {
  readonly key: Key;
  readonly falling: boolean;
}

export const ATTENTION_FIRST: Sort = { key: "state", falling: false };
export const FIGURES: readonly Key[] = ["load", "memory", "temperature", "power", "since"];

type Value = string | number | null;

const VALUES: Record<Key, (gpu: Gpu) => Value> = {
  state: ({ brief }) => ATTENTION.indexOf(brief.verdict.state),
  node: () => 0, // where they are is what breaks every tie
  gpu: ({ brief }) => brief.index,
  model: ({ brief }) => textKey(brief.name),
  who: ({ brief }) => textKey(brief.verdict.users?.[0] ?? null),
  load: ({ figures }) => figures[0],
  memory: ({ figures }) => figures[1],
  temperature: ({ figures }) => figures[2],
  power: ({ figures }) => figures[3],
  since: ({ brief }) => -brief.verdict.since,
  why: ({ brief }) => textKey(brief.verdict.reason ?? brief.verdict.was),
  driver: ({ node }) => textKey(node.brief.driver_version),
  labels: ({ node }) => textKey(labelsOf(node.brief.labels) || null),
  uuid: ({ brief }) => brief.uuid,
};

/** The next order when a column's head is pressed: the other way round, or the way it starts. */
export function pressed(sort: Sort, key: Key): Sort {
  return { key, falling: sort.key === key ? !sort.falling : FIGURES.includes(key) };
}

export function labelsOf(labels: Record<string, string>): string {
  return Object.entries(labels)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

/** Keeps the rows in order from one event to the next: what is almost sorted is soon sorted. */
export class Rows {
  private order: string[] = [];

  /** These GPUs, sorted; or, while they are `held`, where they were, new ones last. */
  arranged(gpus: Iterable<Gpu>, sort: Sort, held = false): Gpu[] {
    const byUuid = new Map<string, Gpu>();
    for (const gpu of gpus) byUuid.set(gpu.brief.uuid, gpu);
    const rows: Gpu[] = [];
    for (const uuid of this.order) {
      const gpu = byUuid.get(uuid);
      if (gpu && byUuid.delete(uuid)) rows.push(gpu);
    }
    rows.push(...byUuid.values());
    const sorted = held ? rows : inOrder(rows, sort);
    this.order = sorted.map((gpu) => gpu.brief.uuid);
    return sorted;
  }
}

function inOrder(rows: readonly Gpu[], { key, falling }: Sort): Gpu[] {
  const value = VALUES[key];
  const keys = rows.map((gpu) => ({ gpu, value: value(gpu), place: textKey(gpu.node.brief.name) ?? "" }));
  keys.sort((a, b) => byValue(a.value, b.value, falling) || byPlace(a, b, falling && key === "node"));
  return keys.map(({ gpu }) => gpu);
}

/** What is not known comes last, whichever way. */
function byValue(a: Value, b: Value, falling: boolean): number {
  if (a === b) return 0;
  if (a === null || b === null) return a === null ? 1 : -1;
  return a < b === falling ? 1 : -1;
}

interface Placed {
  readonly gpu: Gpu;
  readonly place: string;
}

function byPlace(a: Placed, b: Placed, falling: boolean): number {
  if (a.place !== b.place) return a.place < b.place === falling ? 1 : -1;
  return a.gpu.node.brief.number - b.gpu.node.brief.number || a.gpu.brief.index - b.gpu.brief.index;
}

const textKeys = new Map<string, string>();
const MOST_KEPT = 50_000;

function textKey(text: string | null): string | null {
  if (text === null) return null;
  let key = textKeys.get(text);
  if (key === undefined) {
    if (textKeys.size > MOST_KEPT) textKeys.clear();
    textKeys.set(text, (key = naturalKey(text)));
  }
  return key;
}
