// The grid as a list of items with known height: a heading per group, a row per node.

import { type Group, lineCount } from "./arrange";
import type { Fleet, Gpu, Node } from "./fleet";
import type { Density } from "./layout.svelte";
import type { ListItem } from "./virtualList";

export const MAX_COLUMNS = 8;
export const HEADING_HEIGHT = 28;
const PHONE_LINE = 40;
const PHONE_MARGIN = 4;
export const CELLS: Record<Density, { height: number; gap: number }> = {
  comfortable: { height: 40, gap: 4 },
  compact: { height: 24, gap: 3 },
};

export interface HeadingItem extends ListItem {
  readonly kind: "heading";
  readonly group: Group;
}

export interface NodeItem extends ListItem {
  readonly kind: "node";
  /** The number of the node. */
  readonly number: number;
  /** The index among the rows, not counting headings. */
  readonly row: number;
}

export type GridItem = HeadingItem | NodeItem;

/** The number of GPUs of the widest node, at most eight: wider nodes take several lines. */
export function columnCount(fleet: Fleet): number {
  let widest = 1;
  for (const { info } of fleet.nodes.values()) {
    widest = Math.max(widest, info.gpus.length, ...info.gpus.map((gpu) => Math.min(gpu.index + 1, 2 * info.gpus.length)));
  }
  return Math.min(MAX_COLUMNS, widest);
}

/** The items of these groups; nodes removed since they were arranged are left out. */
export function gridItems(fleet: Fleet, groups: readonly Group[], columns: number, density: Density): GridItem[] {
  const { height, gap } = CELLS[density];
  const items: GridItem[] = [];
  let row = 0;
  for (const group of groups) {
    if (groups.length > 1 || group.name !== null) {
      items.push({ kind: "heading", key: `group ${group.name ?? ""}`, height: HEADING_HEIGHT, group });
    }
    for (const number of group.numbers) {
      const node = fleet.nodes.get(number);
      if (!node) continue;
      const lines = lineCount(node.info.gpus, columns);
      items.push({ kind: "node", key: `node ${number}`, height: lines * (height + gap), number, row });
      row += 1;
    }
  }
  return items;
}

export interface PhoneItem extends ListItem {
  readonly node: Node;
  readonly gpus: readonly Gpu[];
}

/** The rows on a phone: only matching GPUs, eight per line. */
export function phoneItems(fleet: Fleet, groups: readonly Group[], matches: (gpu: Gpu) => boolean): PhoneItem[] {
  const rows: PhoneItem[] = [];
  for (const number of groups.flatMap((group) => group.numbers)) {
    const node = fleet.nodes.get(number);
    if (!node) continue;
    const all = node.gpus;
    const gpus = all.filter(matches);
    if (all.length > 0 && gpus.length === 0) continue;
    const lines = Math.max(1, Math.ceil(gpus.length / MAX_COLUMNS));
    rows.push({ key: `node ${number}`, height: PHONE_LINE * lines + PHONE_MARGIN, node, gpus });
  }
  return rows;
}
