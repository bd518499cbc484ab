// The fleet: the events of the stream, merged. The hub judges; this only keeps what it sent.

import type { Reading } from "../feed/state";
import type { EventKind, FleetEvent } from "../feed/stream";
import type { GpuPayload, InstancePayload, NodeFiguresDiff, NodePayload, Summary } from "../feed/types";
import { type NodeTotals, nodeTotals } from "./totals";

/** Load in percent, memory in use in MiB, temperature in °C, power in W. */
export type GpuFigures = [load: Reading, memory: Reading, temperature: Reading, power: Reading];
type ChangedFigures = NodeFiguresDiff[4][number];

const NO_FIGURES: GpuFigures = [null, null, null, null];

export interface NodeFigures {
  reportedAt: number | null;
  cpuPercent: Reading;
  memoryPercent: Reading;
  /** One row per GPU, each followed by the rows of its instances. */
  rows: GpuFigures[];
}

/** A node with its figures. Immutable: every change makes a new object, so that derived values can be cached in it. */
export class Node {
  private cachedGpus: readonly Gpu[] | undefined;
  private cachedTotals: NodeTotals | undefined;

  constructor(
    readonly info: NodePayload,
    readonly figures: NodeFigures,
  ) {}

  get gpus(): readonly Gpu[] {
    return (this.cachedGpus ??= gpusOf(this));
  }

  get totals(): NodeTotals {
    return (this.cachedTotals ??= nodeTotals(this));
  }
}

/** A GPU with its node and its figures, as the views show it. */
export interface Gpu {
  readonly node: Node;
  readonly info: GpuPayload;
  readonly figures: GpuFigures;
  readonly instances: readonly Instance[];
}

export interface Instance {
  readonly info: InstancePayload;
  readonly figures: GpuFigures;
}

export class Fleet {
  takenAt = 0;
  summary: Summary | null = null;
  readonly nodes = new Map<number, Node>();
  /** Incremented when nodes are added or removed, or change their name, labels or GPUs. */
  roster = 0;

  /** Apply an event: `fleet` replaces everything, `change` is a diff. */
  apply(kind: EventKind, event: FleetEvent): void {
    if (kind === "fleet") this.clear();
    this.takenAt = event.taken_at;
    this.summary = event.summary;
    for (const number of event.removed) if (this.nodes.delete(number)) this.roster += 1;
    const infos = new Map(event.nodes.map((node) => [node.number, node]));
    for (const changed of event.figures) {
      const number = changed[0];
      const known = this.nodes.get(number);
      const info = infos.get(number) ?? known?.info;
      if (!info) continue;
      if (info !== known?.info && !isSameRoster(info, known?.info)) this.roster += 1;
      this.nodes.set(number, new Node(info, mergeFigures(known?.figures, changed)));
    }
  }

  private clear(): void {
    this.nodes.clear();
    this.roster += 1;
  }

  /** The GPUs of all nodes. */
  everyGpu(): Gpu[] {
    return [...this.nodes.values()].flatMap((node) => node.gpus);
  }
}

/** Whether a node has the same name, labels and GPUs as before. */
function isSameRoster(info: NodePayload, before: NodePayload | undefined): boolean {
  const isSameGpu = ({ index, name }: GpuPayload, at: number): boolean => before?.gpus[at]?.index === index && before.gpus[at].name === name;
  const sameGpus = info.gpus.length === before?.gpus.length && info.gpus.every(isSameGpu);
  return sameGpus && info.name === before.name && JSON.stringify(info.labels) === JSON.stringify(before.labels);
}

function mergeFigures(before: NodeFigures | undefined, [, reportedAt, cpu, memory, rows]: NodeFiguresDiff): NodeFigures {
  return {
    reportedAt,
    cpuPercent: cpu === "=" ? (before?.cpuPercent ?? null) : cpu,
    memoryPercent: memory === "=" ? (before?.memoryPercent ?? null) : memory,
    rows: before ? rows.map((row, at) => mergeRow(before.rows[at] ?? NO_FIGURES, row)) : (rows as GpuFigures[]),
  };
}

function mergeRow(before: GpuFigures, row: ChangedFigures): GpuFigures {
  if (row === "=") return before;
  return before.map((old, at) => (row[at] === "=" ? old : (row[at] ?? null))) as GpuFigures;
}

function gpusOf(node: Node): Gpu[] {
  let at = 0;
  const nextRow = (): GpuFigures => node.figures.rows[at++] ?? NO_FIGURES;
  return node.info.gpus.map((info) => ({
    node,
    info,
    figures: nextRow(),
    instances: info.instances.map((instance) => ({ info: instance, figures: nextRow() })),
  }));
}
