// Timelines of who used the GPUs of a node. Neighbouring GPUs with the same user and time are merged into one block.

import type { Span } from "../feed/history";
import type { State } from "../feed/state";
import type { GpuOfNode, Strip, StripRun } from "../feed/types";
import { naturalKey } from "./arrange";
import type { Node } from "./fleet";
import { findVerdict } from "./lookup";

/** Stands for the user of a GPU of which only the MIG instances have users. */
export const IN_PARTS = "(in parts)";

/** State and user of a GPU; `state` is `null` while its node was silent. */
export interface Holding {
  readonly state: State | null;
  readonly user: string;
  readonly others: number;
}

/** A time in which a GPU had the same state and users. */
export interface Segment extends Holding {
  readonly start: number;
  readonly end: number;
  readonly busyPercent: number | null;
}

/** A segment that several neighbouring GPUs share: `rows` of them, starting at `row`. */
export interface TimelineBlock extends Segment {
  readonly row: number;
  readonly rows: number;
}

export interface NodeTimeline {
  readonly nodeId: string;
  readonly name: string;
  readonly gpus: readonly GpuOfNode[];
  /** The segments of each GPU. */
  readonly segments: readonly (readonly Segment[])[];
  readonly blocks: readonly TimelineBlock[];
}

/** One timeline per node, sorted by name. */
export function timelinesByNode(rows: readonly Strip[], span: Span): NodeTimeline[] {
  const nodes = new Map<string, Strip[]>();
  for (const row of rows) {
    const found = nodes.get(row.gpu.node_id);
    if (found) found.push(row);
    else nodes.set(row.gpu.node_id, [row]);
  }
  const timelines = [...nodes].map(([nodeId, strips]) => nodeTimeline(nodeId, strips, span));
  const keys = new Map(timelines.map(({ nodeId, name }) => [nodeId, naturalKey(name)]));
  return timelines.sort((a, b) => ((keys.get(a.nodeId) ?? "") < (keys.get(b.nodeId) ?? "") ? -1 : 1));
}

function nodeTimeline(nodeId: string, rows: readonly Strip[], span: Span): NodeTimeline {
  const parents = new Set(rows.map(({ gpu }) => gpu.parent));
  const segments = rows.map(({ gpu, runs }) => segmentsOf(parents.has(gpu.uuid) ? runs.map(withInstanceUsers) : runs, span));
  return { nodeId, name: rows[0]?.gpu.node ?? nodeId, gpus: rows.map(({ gpu }) => gpu), segments, blocks: mergeRows(segments) };
}

function withInstanceUsers(run: StripRun): StripRun {
  return run.user || (run.state !== "busy" && run.state !== "held") ? run : { ...run, user: IN_PARTS };
}

/** Join runs that differ only in load, and fill the gaps between them. */
export function segmentsOf(runs: readonly StripRun[], span: Span): Segment[] {
  const segments: Segment[] = [];
  const tolerance = (span.end - span.start) / 10_000;
  let at = span.start;
  for (const run of runs) {
    if (run.start - at > tolerance) segments.push(silence(at, run.start));
    const last = segments.at(-1);
    if (last && isSameHolding(last, run)) segments[segments.length - 1] = join(last, run);
    else segments.push({ start: run.start, end: run.end, state: run.state, user: run.user, others: run.others, busyPercent: run.busy_percent });
    at = run.end;
  }
  if (span.end - at > tolerance) segments.push(silence(at, span.end));
  return segments;
}

function silence(start: number, end: number): Segment {
  return { start, end, state: null, user: "", others: 0, busyPercent: null };
}

function isSameHolding(one: Segment, other: StripRun | Segment): boolean {
  return one.state === other.state && one.user === other.user && one.others === other.others;
}

function join(before: Segment, run: StripRun): Segment {
  return { ...before, end: run.end, busyPercent: mean(before.busyPercent, before.end - before.start, run.busy_percent, run.end - run.start) };
}

function mean(one: number | null, weight: number, other: number | null, otherWeight: number): number | null {
  if (one === null || other === null) return one ?? other;
  return (one * weight + other * otherWeight) / (weight + otherWeight);
}

/** Merge equal segments of neighbouring rows into blocks. */
export function mergeRows(rows: readonly (readonly Segment[])[]): TimelineBlock[] {
  const blocks: TimelineBlock[] = [];
  // For the row above and the current row: which block starts at which time.
  let above = new Map<number, number>();
  for (const [row, segments] of rows.entries()) {
    const current = new Map<number, number>();
    for (const segment of segments) {
      const index = above.get(segment.start);
      const block = index === undefined ? undefined : blocks[index];
      const merges = index !== undefined && block?.end === segment.end && isSameHolding(block, segment);
      current.set(segment.start, merges ? index : blocks.length);
      if (merges) blocks[index] = extend(block, segment);
      else blocks.push({ ...segment, row, rows: 1 });
    }
    above = current;
  }
  return blocks;
}

function extend(block: TimelineBlock, { busyPercent }: Segment): TimelineBlock {
  return { ...block, rows: block.rows + 1, busyPercent: mean(block.busyPercent, block.rows, busyPercent, 1) };
}

/** State and user of a GPU at the moment that the page shows. */
export function holdingOf(node: Node, uuid: string): Holding | undefined {
  const verdict = findVerdict(node, uuid);
  if (!verdict) return undefined;
  const [user = "", ...others] = verdict.users ?? [];
  return { state: node.info.silent ? null : verdict.state, user, others: others.length };
}

/** The segment at a moment. */
export function segmentAt(segments: readonly Segment[], moment: number): Segment | undefined {
  const last = segments.at(-1);
  return segments.find(({ start, end }) => start <= moment && moment < end) ?? (last?.end === moment ? last : undefined);
}

const [MAX_COLUMNS, MAX_PHONE_COLUMNS, MIN_COLUMNS] = [240, 96, 24];
/** Columns of all GPUs together: a hub computes these in seconds, and refuses 5 million. */
const MAX_CELLS = 2_000_000;
const MAX_REFRESH_SECONDS = 60;

/** How many columns the timelines of this many GPUs have. */
export function stripColumns(gpus: number, isPhone: boolean): number {
  return Math.max(MIN_COLUMNS, Math.min(maxColumns(isPhone), Math.floor(MAX_CELLS / Math.max(1, gpus))));
}

/** How often timelines are loaded again: those of a large fleet only when they have a new column. */
export function refreshSeconds(rangeSeconds: number, columns: number, isPhone: boolean): number {
  const perColumn = rangeSeconds / columns;
  return columns < maxColumns(isPhone) ? perColumn : Math.min(MAX_REFRESH_SECONDS, perColumn);
}

function maxColumns(isPhone: boolean): number {
  return isPhone ? MAX_PHONE_COLUMNS : MAX_COLUMNS;
}
