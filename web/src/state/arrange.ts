// In which order, and under which headings, the nodes stand. The same fleet and choice give the same rows.

import type { GpuBrief, NodeBrief, State } from "../feed/event";
import type { Fleet, Gpu, Node } from "./fleet";

export const SORTS = ["name", "free", "load", "attention"] as const;
export type Sort = (typeof SORTS)[number];
export type Grouping = "none" | "model" | "user" | `label:${string}`;

export interface Choice {
  readonly sort: Sort;
  readonly grouping: Grouping;
}

/** Nodes under one heading, by their numbers; the heading is `null` where there is nothing to say. */
export interface Group {
  readonly name: string | null;
  readonly numbers: readonly number[];
}

const DIGITS = 12;
const WORST_FIRST: readonly State[] = ["held", "ghost", "unknown", "broken"];
const ODD = 0.5;
const keys = new WeakMap<NodeBrief, string>();

/** The groups of a fleet, each with its nodes, as the choice wants them; `before` itself where nothing has moved. */
export function arranged(fleet: Fleet, { sort, grouping }: Choice, before: readonly Group[] = []): readonly Group[] {
  const rank = RANKS[sort];
  const rows = nodesOf(fleet, before).map((node) => ({ node, key: keyOf(node.brief), rank: rank(node) }));
  rows.sort((a, b) => b.rank - a.rank || (a.key < b.key ? -1 : a.key > b.key ? 1 : a.node.brief.number - b.node.brief.number));
  const groups = new Map<string | null, number[]>();
  for (const { node } of rows) {
    const name = headingOf(node, grouping);
    const found = groups.get(name);
    if (found) found.push(node.brief.number);
    else groups.set(name, [node.brief.number]);
  }
  const named = [...groups].map(([name, numbers]) => ({ name, numbers }));
  if (sort === "name") named.sort((a, b) => byHeading(a.name, b.name));
  return isSame(named, before) ? before : named;
}

/** Whether an arrangement stays until the fleet's `roster` is another; else any figure may change it. */
export function isLasting({ sort, grouping }: Choice): boolean {
  return sort === "name" && grouping !== "user";
}

/** The nodes of a fleet, in the order that they had before: what is almost sorted is sorted soon. */
function nodesOf(fleet: Fleet, before: readonly Group[]): Node[] {
  if (!holdsAll(before, fleet)) return [...fleet.nodes.values()];
  return before.flatMap((group) => group.numbers.map((number) => fleet.nodes.get(number))).filter((node) => node !== undefined);
}

function isSame(groups: readonly Group[], others: readonly Group[]): boolean {
  const same = ({ name, numbers }: Group, other: Group | undefined): boolean =>
    name === other?.name && numbers.length === other.numbers.length && numbers.every((number, at) => number === other.numbers[at]);
  return groups.length === others.length && groups.every((group, at) => same(group, others[at]));
}

/** Whether these groups have every node of the fleet, and none besides: then they may stay as they are. */
export function holdsAll(groups: readonly Group[], fleet: Fleet): boolean {
  const held = groups.reduce((sum, group) => sum + group.numbers.length, 0);
  return held === fleet.nodes.size && groups.every((group) => group.numbers.every((number) => fleet.nodes.has(number)));
}

/** What the nodes can be grouped by: the labels that any of them has, the commonest first. */
export function groupings(fleet: Fleet): Grouping[] {
  const labels = new Map<string, number>();
  for (const { brief } of fleet.nodes.values()) {
    for (const label of Object.keys(brief.labels)) labels.set(label, (labels.get(label) ?? 0) + 1);
  }
  const named = [...labels].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
  return ["none", ...named.map(([label]): Grouping => `label:${label}`), "model", "user"];
}

/** By rack where there are racks; else as one list. */
export function usualGrouping(fleet: Fleet): Grouping {
  for (const { brief } of fleet.nodes.values()) if (brief.labels.rack) return "label:rack";
  return "none";
}

/** The GPUs of a node in the places that their indices give them; `null` is an empty place. */
export function slots(gpus: readonly Gpu[], columns: number): (Gpu | null)[] {
  const briefs = gpus.map((gpu) => gpu.brief);
  const byIndex = areDistinct(briefs);
  const places = new Array<Gpu | null>(linesOf(briefs, columns) * columns).fill(null);
  gpus.forEach((gpu, at) => (places[byIndex ? gpu.brief.index : at] = gpu));
  return places;
}

/** How many lines their places take. */
export function linesOf(gpus: readonly GpuBrief[], columns: number): number {
  const taken = areDistinct(gpus) ? (gpus.at(-1)?.index ?? 0) + 1 : gpus.length;
  return Math.max(1, Math.ceil(taken / columns));
}

/** Whether the indices rise, and leave no more places empty than there are GPUs. */
function areDistinct(gpus: readonly GpuBrief[]): boolean {
  let last = -1;
  for (const { index } of gpus) {
    if (index <= last) return false;
    last = index;
  }
  return last < 2 * gpus.length;
}

/** How many GPUs of these nodes are free, and how many there are. */
export function freeOf(fleet: Fleet, numbers: readonly number[]): { free: number; gpus: number } {
  const sums = { free: 0, gpus: 0 };
  for (const number of numbers) {
    const node = fleet.nodes.get(number);
    sums.gpus += node?.brief.gpus.length ?? 0;
    sums.free += node?.sums.free ?? 0;
  }
  return sums;
}

/** A name so written that plain comparison puts gpu2 before gpu10. */
export function naturalKey(name: string): string {
  return name.toLowerCase().replace(/\d+/g, (digits) => digits.padStart(DIGITS, "0"));
}

const RANKS: Record<Sort, (node: Node) => number> = {
  name: () => 0,
  free: ({ sums }) => sums.free,
  load: (node) => (node.brief.silent ? -1 : meanLoad(node.gpus)),
  attention: ({ brief }) => need(brief),
};

function meanLoad(gpus: readonly Gpu[]): number {
  const told = gpus.map((gpu) => gpu.figures[0]).filter((busy) => busy !== null);
  return told.length === 0 ? -1 : told.reduce((sum, busy) => sum + busy, 0) / told.length;
}

/** How much a node needs somebody: its worst state first, then how many are in it. */
function need({ gpus, silent, warnings }: NodeBrief): number {
  let worst = warnings > 0 || silent ? ODD : 0;
  let many = 0;
  for (const { verdict } of gpus) {
    const weight = WORST_FIRST.indexOf(verdict.state) + 1;
    if (weight > worst) [worst, many] = [weight, 0];
    if (weight === worst) many += 1;
  }
  return worst === 0 ? 0 : 1000 * worst + many;
}

function headingOf({ brief }: Node, grouping: Grouping): string | null {
  if (grouping === "none") return null;
  if (grouping === "model") return commonest(brief.gpus.map((gpu) => gpu.name));
  if (grouping === "user") return commonest(brief.gpus.flatMap((gpu) => gpu.verdict.users ?? []));
  return brief.labels[grouping.slice("label:".length)] ?? null;
}

function commonest(names: readonly (string | null)[]): string | null {
  const counts = new Map<string, number>();
  for (const name of names) if (name !== null) counts.set(name, (counts.get(name) ?? 0) + 1);
  let [most, count]: [string | null, number] = [null, 0];
  for (const [name, times] of counts) if (times > count) [most, count] = [name, times];
  return most;
}

/** Those without a heading come last. */
function byHeading(a: string | null, b: string | null): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return naturalKey(a) < naturalKey(b) ? -1 : 1;
}

function keyOf(brief: NodeBrief): string {
  let key = keys.get(brief);
  if (key === undefined) keys.set(brief, (key = naturalKey(brief.name)));
  return key;
}
