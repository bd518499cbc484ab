// Order and grouping of the nodes in the grid.

import type { State } from "../feed/state";
import type { GpuPayload, NodePayload } from "../feed/types";
import type { Fleet, Gpu, Node } from "./fleet";

export const SORTS = ["name", "free", "load", "attention"] as const;
export type Sort = (typeof SORTS)[number];
export type Grouping = "none" | "model" | "user" | `label:${string}`;

export interface Arrangement {
  readonly sort: Sort;
  readonly grouping: Grouping;
}

/**
 * A group of nodes, by their numbers in the stream; `name` is `null` for those without a heading. Grouped by user, a node
 * is in the group of each of its users, with their GPUs alone.
 */
export interface Group {
  readonly name: string | null;
  readonly numbers: readonly number[];
  /** How many nodes it has if some are hidden. */
  readonly nodes?: number;
}

const MAX_DIGITS = 12;
const NOBODY: readonly null[] = [null];
const BY_SEVERITY: readonly State[] = ["held", "ghost", "unknown", "broken"];
/** The severity of a node with warnings, below that of every GPU state. */
const WARNING = 0.5;
const sortKeys = new WeakMap<NodePayload, string>();

/** Group and sort the nodes. Returns `before` itself if nothing moved, so that nothing is redrawn. */
export function arrange(fleet: Fleet, { sort, grouping }: Arrangement, before: readonly Group[] = []): readonly Group[] {
  const rank = RANKS[sort];
  const rows = inOrder(fleet, before).map((node) => ({ node, key: sortKey(node.info), rank: rank(node) }));
  rows.sort((a, b) => b.rank - a.rank || (a.key < b.key ? -1 : a.key > b.key ? 1 : a.node.info.number - b.node.info.number));
  const groups = new Map<string | null, number[]>();
  for (const { node } of rows) {
    for (const name of headingsOf(node, grouping)) {
      const found = groups.get(name);
      if (found) found.push(node.info.number);
      else groups.set(name, [node.info.number]);
    }
  }
  const arranged = [...groups].map(([name, numbers]) => ({ name, numbers }));
  if (sort === "name") arranged.sort((a, b) => byHeading(a.name, b.name));
  return isSame(arranged, before) ? before : arranged;
}

/** Whether only a change of the fleet's `roster` can change the arrangement; otherwise any figure can. */
export function isStatic({ sort, grouping }: Arrangement): boolean {
  return sort === "name" && grouping !== "user";
}

/** The nodes in their previous order: sorting an almost sorted list is fast. */
function inOrder(fleet: Fleet, before: readonly Group[]): Node[] {
  if (!containsExactly(before, fleet)) return [...fleet.nodes.values()];
  const numbers = new Set(before.flatMap((group) => group.numbers));
  return [...numbers].map((number) => fleet.nodes.get(number)).filter((node) => node !== undefined);
}

/** Whether these are the same groups with the same nodes. */
export function isSame(groups: readonly Group[], others: readonly Group[]): boolean {
  const same = ({ name, numbers }: Group, other: Group | undefined): boolean =>
    name === other?.name && numbers.length === other.numbers.length && numbers.every((number, at) => number === other.numbers[at]);
  return groups.length === others.length && groups.every((group, at) => same(group, others[at]));
}

/** Whether these groups contain exactly the nodes of the fleet. */
export function containsExactly(groups: readonly Group[], fleet: Fleet): boolean {
  const numbers = new Set(groups.flatMap((group) => group.numbers));
  return numbers.size === fleet.nodes.size && [...numbers].every((number) => fleet.nodes.has(number));
}

/** What the nodes can be grouped by; labels with the most common first. */
export function groupings(fleet: Fleet): Grouping[] {
  const labels = new Map<string, number>();
  for (const { info } of fleet.nodes.values()) {
    for (const label of Object.keys(info.labels)) labels.set(label, (labels.get(label) ?? 0) + 1);
  }
  const named = [...labels].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  return ["none", ...named.map(([label]): Grouping => `label:${label}`), "model", "user"];
}

/** By rack if any node has that label. */
export function defaultGrouping(fleet: Fleet): Grouping {
  for (const { info } of fleet.nodes.values()) if (info.labels.rack) return "label:rack";
  return "none";
}

/** The GPUs of a node by index, in whole lines; `null` is an empty slot. */
export function slots(gpus: readonly Gpu[], columns: number): (Gpu | null)[] {
  const infos = gpus.map((gpu) => gpu.info);
  const byIndex = areIndicesUsable(infos);
  const result = new Array<Gpu | null>(lineCount(infos, columns) * columns).fill(null);
  gpus.forEach((gpu, at) => (result[byIndex ? gpu.info.index : at] = gpu));
  return result;
}

/** The number of lines that their slots take. */
export function lineCount(gpus: readonly GpuPayload[], columns: number): number {
  const slotCount = areIndicesUsable(gpus) ? (gpus.at(-1)?.index ?? 0) + 1 : gpus.length;
  return Math.max(1, Math.ceil(slotCount / columns));
}

/** Whether the indices are increasing and at most half of the slots would be empty. */
function areIndicesUsable(gpus: readonly GpuPayload[]): boolean {
  let last = -1;
  for (const { index } of gpus) {
    if (index <= last) return false;
    last = index;
  }
  return last < 2 * gpus.length;
}

/** The nodes of a group; those removed since it was arranged are left out. */
export function nodesOf(fleet: Fleet, { numbers }: Group): Node[] {
  return numbers.map((number) => fleet.nodes.get(number)).filter((node) => node !== undefined);
}

/** How many GPUs these nodes have, and how many of them are free. */
export function countFree(fleet: Fleet, numbers: readonly number[]): { free: number; gpus: number } {
  const count = { free: 0, gpus: 0 };
  for (const number of numbers) {
    const node = fleet.nodes.get(number);
    count.gpus += node?.info.gpus.length ?? 0;
    count.free += node?.totals.free ?? 0;
  }
  return count;
}

/** Whether a GPU is in the group of this name: all of a node are, except grouped by user. */
export function isInGroup({ verdict }: GpuPayload, name: string | null, grouping: Grouping): boolean {
  return grouping !== "user" || usersOf(verdict).includes(name);
}

/** How many GPUs of a user are in the group, and how many of them are held but idle. */
export function countOwned(fleet: Fleet, { name, numbers }: Group): { gpus: number; idle: number; free: number } {
  const count = { gpus: 0, idle: 0, free: 0 };
  for (const number of numbers) {
    for (const gpu of fleet.nodes.get(number)?.info.gpus ?? []) {
      if (!isInGroup(gpu, name, "user")) continue;
      count.gpus += 1;
      if (gpu.verdict.state === "held") count.idle += 1;
      if (gpu.verdict.state === "free") count.free += 1;
    }
  }
  return count;
}

/** The users of a GPU, which is in the group of each; one without a user is in that of nobody. */
function usersOf({ users }: GpuPayload["verdict"]): readonly (string | null)[] {
  return users?.length ? users : NOBODY;
}

/** A key for natural sort order: gpu2 before gpu10. */
export function naturalKey(name: string): string {
  return name.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(MAX_DIGITS, "0"));
}

const RANKS: Record<Sort, (node: Node) => number> = {
  name: () => 0,
  free: ({ totals }) => totals.free,
  load: (node) => (node.info.silent ? -1 : meanLoad(node.gpus)),
  attention: ({ info }) => severity(info),
};

function meanLoad(gpus: readonly Gpu[]): number {
  const loads = gpus.map((gpu) => gpu.figures[0]).filter((load) => load !== null);
  return loads.length === 0 ? -1 : loads.reduce((sum, load) => sum + load, 0) / loads.length;
}

/** How much attention a node needs: by its worst state, then by the number of GPUs in it. */
function severity({ gpus, silent, warnings }: NodePayload): number {
  let worst = warnings > 0 || silent ? WARNING : 0;
  let count = 0;
  for (const { verdict } of gpus) {
    const weight = BY_SEVERITY.indexOf(verdict.state) + 1;
    if (weight > worst) [worst, count] = [weight, 0];
    if (weight === worst) count += 1;
  }
  return worst === 0 ? 0 : 1000 * worst + count;
}

function headingsOf({ info }: Node, grouping: Grouping): Iterable<string | null> {
  if (grouping === "none") return [null];
  if (grouping === "model") return [mostCommon(info.gpus.map((gpu) => gpu.name))];
  if (grouping === "user") return new Set(info.gpus.length ? info.gpus.flatMap((gpu) => usersOf(gpu.verdict)) : NOBODY);
  return [info.labels[grouping.slice("label:".length)] ?? null];
}

function mostCommon(names: readonly (string | null)[]): string | null {
  const counts = new Map<string, number>();
  for (const name of names) if (name !== null) counts.set(name, (counts.get(name) ?? 0) + 1);
  let [best, count]: [string | null, number] = [null, 0];
  for (const [name, times] of counts) if (times > count) [best, count] = [name, times];
  return best;
}

/** The group without a heading comes last. */
function byHeading(a: string | null, b: string | null): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return naturalKey(a) < naturalKey(b) ? -1 : 1;
}

function sortKey(info: NodePayload): string {
  let key = sortKeys.get(info);
  if (key === undefined) sortKeys.set(info, (key = naturalKey(info.name)));
  return key;
}
