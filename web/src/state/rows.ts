// The grid as blocks of known height: a heading a group, a row a node.

import { type Group, linesOf } from "./arrange";
import type { Fleet, Gpu, Node } from "./fleet";
import type { Density } from "./layout.svelte";
import type { Block } from "./visible";

export const MOST_COLUMNS = 8;
export const HEADING_HEIGHT = 28;
const [PHONE_LINE, PHONE_MARGIN] = [40, 4];
export const CELLS: Record<Density, { height: number; gap: number }> = {
  comfortable: { height: 40, gap: 4 },
  compact: { height: 24, gap: 3 },
};

export interface Heading extends Block {
  readonly kind: "heading";
  readonly group: Group;
}

export interface NodeRow extends Block {
  readonly kind: "node";
  /** The number of the node. */
  readonly number: number;
  /** Which of the rows it is, headings not counted. */
  readonly row: number;
}

export type GridBlock = Heading | NodeRow;

/** As many columns as the widest node has GPUs, up to eight: wider ones take several lines. */
export function columnsOf(fleet: Fleet): number {
  let widest = 1;
  for (const { brief } of fleet.nodes.values()) {
    widest = Math.max(widest, brief.gpus.length, ...brief.gpus.map((gpu) => Math.min(gpu.index + 1, 2 * brief.gpus.length)));
  }
  return Math.min(MOST_COLUMNS, widest);
}

/** The blocks of these groups; nodes that have gone since they were arranged are left out. */
export function blocksOf(fleet: Fleet, groups: readonly Group[], columns: number, density: Density): GridBlock[] {
  const { height, gap } = CELLS[density];
  const blocks: GridBlock[] = [];
  let row = 0;
  for (const group of groups) {
    if (groups.length > 1 || group.name !== null) {
      blocks.push({ kind: "heading", key: `group ${group.name ?? ""}`, height: HEADING_HEIGHT, group });
    }
    for (const number of group.numbers) {
      const node = fleet.nodes.get(number);
      if (!node) continue;
      const lines = linesOf(node.brief.gpus, columns);
      blocks.push({ kind: "node", key: `node ${number}`, height: lines * (height + gap), number, row });
      row += 1;
    }
  }
  return blocks;
}

export interface PhoneRow extends Block {
  readonly node: Node;
  readonly gpus: readonly Gpu[];
}

/** The rows on a phone: what matches alone, and eight squares a line. */
export function phoneRows(fleet: Fleet, groups: readonly Group[], matches: (gpu: Gpu) => boolean): PhoneRow[] {
  const rows: PhoneRow[] = [];
  for (const number of groups.flatMap((group) => group.numbers)) {
    const node = fleet.nodes.get(number);
    if (!node) continue;
    const all = node.gpus;
    const gpus = all.filter(matches);
    if (all.length > 0 && gpus.length === 0) continue;
    const lines = Math.max(1, Math.ceil(gpus.length / MOST_COLUMNS));
    rows.push({ key: `node ${number}`, height: PHONE_LINE * lines + PHONE_MARGIN, node, gpus });
  }
  return rows;
}
