// The heat strip's blocks: neighbouring GPUs that one person had for the same time melt into one, named once.

import type { State } from "../feed/event";
import type { GpuOfNode, Run, Span, Strip } from "../feed/history";
import { naturalKey } from "./arrange";
import type { Node } from "./fleet";
import { verdictOf } from "./found";

/** In the place of a user where only the instances of a GPU have any. */
export const IN_PARTS = "(in parts)";

/** How a GPU stands, and who has it; `state` is `null` where nobody heard its node. */
export interface Held {
  readonly state: State | null;
  readonly user: string;
  readonly others: number;
}

/** A GPU in one state with the same people. */
export interface Stretch extends Held {
  readonly start: number;
  readonly end: number;
  readonly busyPercent: number | null;
}

/** A stretch of several neighbouring GPUs: `rows` of them from the `row`-th on. */
export interface Block extends Stretch {
  readonly row: number;
  readonly rows: number;
}

export interface NodeStrip {
  readonly nodeId: string;
  readonly name: string;
  readonly gpus: readonly GpuOfNode[];
  /** What each GPU was, in order. */
  readonly stretches: readonly (readonly Stretch[])[];
  readonly blocks: readonly Block[];
}

/** The strips node by node. */
export function byNode(rows: readonly Strip[], span: Span): NodeStrip[] {
  const nodes = new Map<string, Strip[]>();
  for (const row of rows) {
    const found = nodes.get(row.gpu.node_id);
    if (found) found.push(row);
    else nodes.set(row.gpu.node_id, [row]);
  }
  const found = [...nodes].map(([nodeId, theirs]) => nodeStrip(nodeId, theirs, span));
  const keys = new Map(found.map(({ nodeId, name }) => [nodeId, naturalKey(name)]));
  return found.sort((a, b) => ((keys.get(a.nodeId) ?? "") < (keys.get(b.nodeId) ?? "") ? -1 : 1));
}

function nodeStrip(nodeId: string, rows: readonly Strip[], span: Span): NodeStrip {
  const wholes = new Set(rows.map(({ gpu }) => gpu.parent));
  const stretches = rows.map(({ gpu, runs }) => stretchesOf(wholes.has(gpu.uuid) ? runs.map(inParts) : runs, span));
  return { nodeId, name: rows[0]?.gpu.node ?? nodeId, gpus: rows.map(({ gpu }) => gpu), stretches, blocks: melted(stretches) };
}

function inParts(run: Run): Run {
  return run.user || (run.state !== "busy" && run.state !== "held") ? run : { ...run, user: IN_PARTS };
}

/** Runs joined where only the load differs, and what is between them. */
export function stretchesOf(runs: readonly Run[], span: Span): Stretch[] {
  const found: Stretch[] = [];
  const tolerance = (span.end - span.start) / 10_000;
  let at = span.start;
  for (const run of runs) {
    if (run.start - at > tolerance) found.push(unheard(at, run.start));
    const last = found.at(-1);
    if (last && looksLike(last, run)) found[found.length - 1] = joined(last, run);
    else found.push({ start: run.start, end: run.end, state: run.state, user: run.user, others: run.others, busyPercent: run.busy_percent });
    at = run.end;
  }
  if (span.end - at > tolerance) found.push(unheard(at, span.end));
  return found;
}

function unheard(start: number, end: number): Stretch {
  return { start, end, state: null, user: "", others: 0, busyPercent: null };
}

function looksLike(one: Stretch, other: Run | Stretch): boolean {
  return one.state === other.state && one.user === other.user && one.others === other.others;
}

function joined(before: Stretch, run: Run): Stretch {
  return { ...before, end: run.end, busyPercent: mean(before.busyPercent, before.end - before.start, run.busy_percent, run.end - run.start) };
}

function mean(one: number | null, weight: number, other: number | null, otherWeight: number): number | null {
  if (one === null || other === null) return one ?? other;
  return (one * weight + other * otherWeight) / (weight + otherWeight);
}

/** The blocks of neighbouring rows. */
export function melted(rows: readonly (readonly Stretch[])[]): Block[] {
  const blocks: Block[] = [];
  let above = new Map<number, number>();
  for (const [row, stretches] of rows.entries()) {
    const here = new Map<number, number>();
    for (const stretch of stretches) {
      const place = above.get(stretch.start);
      const over = place === undefined ? undefined : blocks[place];
      const melts = place !== undefined && over?.end === stretch.end && looksLike(over, stretch);
      here.set(stretch.start, melts ? place : blocks.length);
      if (melts) blocks[place] = grown(over, stretch);
      else blocks.push({ ...stretch, row, rows: 1 });
    }
    above = here;
  }
  return blocks;
}

function grown(block: Block, { busyPercent }: Stretch): Block {
  return { ...block, rows: block.rows + 1, busyPercent: mean(block.busyPercent, block.rows, busyPercent, 1) };
}

/** What is told of a node's GPU at the moment that the page shows, as a stretch tells it. */
export function standing(node: Node, uuid: string): Held | undefined {
  const verdict = verdictOf(node, uuid);
  if (!verdict) return undefined;
  const [user = "", ...others] = verdict.users ?? [];
  return { state: node.brief.silent ? null : verdict.state, user, others: others.length };
}

/** What it was at a moment. */
export function stretchAt(stretches: readonly Stretch[], moment: number): Stretch | undefined {
  const last = stretches.at(-1);
  return stretches.find(({ start, end }) => start <= moment && moment < end) ?? (last?.end === moment ? last : undefined);
}
