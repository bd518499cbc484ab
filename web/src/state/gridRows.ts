// The grid as a list of items with known height: a heading per group, and lines of one or more nodes side by side.

import { type Group, lineCount, nodesOf } from "./arrange";
import type { Fleet, Gpu, Node } from "./fleet";
import type { Density } from "./layout.svelte";
import type { ListItem } from "./virtualList";

export const MAX_PLACES = 8;
/** The space between nodes that are side by side. */
export const NODE_GAP = 24;
export const HEADING_HEIGHT = 26;
const PHONE_LINE = 44;
const PHONE_MARGIN = 4;
export const CELLS: Record<Density, { height: number; gap: number }> = {
  comfortable: { height: 40, gap: 4 },
  compact: { height: 24, gap: 3 },
};

/** How wide a node must be at least, by the number of GPUs that it has places for. */
const MIN_NODE_WIDTHS: readonly (readonly [places: number, width: number])[] = [[1, 230], [2, 320], [4, 440], [MAX_PLACES, 860]];

/** How many nodes fit side by side, by the number of places of each. */
export type Abreast = Readonly<Record<number, number>>;

export function nodesAbreast(width: number): Abreast {
  return Object.fromEntries(MIN_NODE_WIDTHS.map(([places, min]) => [places, Math.max(1, Math.floor((width + NODE_GAP) / (min + NODE_GAP)))]));
}

export interface HeadingItem extends ListItem {
  readonly kind: "heading";
  readonly group: Group;
}

/** One line of the grid: nodes side by side, each with as many places for GPUs. */
export interface LineItem extends ListItem {
  readonly kind: "line";
  /** The numbers of the nodes. */
  readonly numbers: readonly number[];
  /** The name of their group. */
  readonly group: string | null;
  readonly places: number;
  readonly abreast: number;
  /** Counts the lines, not the headings. */
  readonly line: number;
  /** Counts the nodes of the lines above. */
  readonly row: number;
}

export type GridItem = HeadingItem | LineItem;

/** The number of places that the widest of these nodes needs; nodes with more than eight GPUs take several lines. */
export function placesOf(nodes: readonly Node[]): number {
  let widest = 1;
  for (const { info } of nodes) {
    widest = Math.max(widest, info.gpus.length, ...info.gpus.map((gpu) => Math.min(gpu.index + 1, 2 * info.gpus.length)));
  }
  return MIN_NODE_WIDTHS.find(([places]) => places >= widest)?.[0] ?? MAX_PLACES;
}

/** The items of these groups; nodes removed since they were arranged are left out. */
export function gridItems(fleet: Fleet, groups: readonly Group[], abreast: Abreast, density: Density): GridItem[] {
  const items: GridItem[] = [];
  let [line, row] = [0, 0];
  for (const group of groups) {
    const nodes = nodesOf(fleet, group);
    if (groups.length > 1 || group.name !== null) {
      items.push({ kind: "heading", key: `group ${group.name ?? ""}`, height: HEADING_HEIGHT, group });
    }
    const places = placesOf(nodes);
    const beside = abreast[places] ?? 1;
    for (let at = 0; at < nodes.length; at += beside) {
      const item = lineItem(nodes.slice(at, at + beside), places, beside, density);
      items.push({ ...item, key: `${item.key} ${group.name ?? ""}`, group: group.name, line, row });
      line += 1;
      row += item.numbers.length;
    }
  }
  return items;
}

function lineItem(nodes: readonly Node[], places: number, abreast: number, density: Density): Omit<LineItem, "group" | "line" | "row"> {
  const { height, gap } = CELLS[density];
  const lines = Math.max(...nodes.map(({ info }) => lineCount(info.gpus, places)));
  const numbers = nodes.map(({ info }) => info.number);
  return { kind: "line", key: `node ${numbers[0]}`, height: lines * (height + gap), numbers, places, abreast };
}

export interface PhoneItem extends ListItem {
  readonly node: Node;
  readonly gpus: readonly Gpu[];
}

/** The rows on a phone: only matching GPUs, eight per line. */
export function phoneItems(fleet: Fleet, groups: readonly Group[], matches: (gpu: Gpu) => boolean): PhoneItem[] {
  const rows: PhoneItem[] = [];
  for (const number of new Set(groups.flatMap((group) => group.numbers))) {
    const node = fleet.nodes.get(number);
    if (!node) continue;
    const all = node.gpus;
    const gpus = all.filter(matches);
    if (all.length > 0 && gpus.length === 0) continue;
    const lines = Math.max(1, Math.ceil(gpus.length / MAX_PLACES));
    rows.push({ key: `node ${number}`, height: PHONE_LINE * lines + PHONE_MARGIN, node, gpus });
  }
  return rows;
}
