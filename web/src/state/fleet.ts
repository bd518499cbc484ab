// What the page believes of the fleet: the events of the stream, added up. No judging here.

import type { Figure, FleetEvent, GpuBrief, InstanceBrief, Moved, MovedRow, NodeBrief, Row, Summary } from "../feed/event";
import { type Sums, sumsOf } from "./totals";

const UNKNOWN: Row = [null, null, null, null];

export interface Figures {
  heardAt: number | null;
  cpuPercent: Figure;
  memoryPercent: Figure;
  parts: Row[];
}

/** A node with its figures; another object whenever anything of it is another, so that what is made of it is made once. */
export class Node {
  private inPlaces: readonly Gpu[] | undefined;
  private summed: Sums | undefined;

  constructor(
    readonly brief: NodeBrief,
    readonly figures: Figures,
  ) {}

  /** Its GPUs with their figures. */
  get gpus(): readonly Gpu[] {
    return (this.inPlaces ??= inPlaces(this));
  }

  get sums(): Sums {
    return (this.summed ??= sumsOf(this));
  }
}

/** One GPU in its place, as the views show it. */
export interface Gpu {
  readonly node: Node;
  readonly brief: GpuBrief;
  readonly figures: Row;
  readonly instances: readonly Instance[];
}

export interface Instance {
  readonly brief: InstanceBrief;
  readonly figures: Row;
}

export class Fleet {
  takenAt = 0;
  summary: Summary | null = null;
  readonly nodes = new Map<number, Node>();
  /** Goes up when nodes come or go, or are named, labelled or equipped otherwise. */
  roster = 0;

  /** Take an event in: `fleet` is everything anew, `change` what is new. */
  apply(kind: "fleet" | "change", event: FleetEvent): void {
    if (kind === "fleet") this.clear();
    this.takenAt = event.taken_at;
    this.summary = event.summary;
    for (const number of event.removed) if (this.nodes.delete(number)) this.roster += 1;
    const briefs = new Map(event.nodes.map((node) => [node.number, node]));
    for (const moved of event.figures) {
      const number = moved[0];
      const known = this.nodes.get(number);
      const brief = briefs.get(number) ?? known?.brief;
      if (!brief) continue;
      if (brief !== known?.brief && !isAlike(brief, known?.brief)) this.roster += 1;
      this.nodes.set(number, new Node(brief, merged(known?.figures, moved)));
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

/** Whether two say the same of what a node is: its name, its labels, which GPUs it has. */
function isAlike(brief: NodeBrief, before: NodeBrief | undefined): boolean {
  const isThere = ({ index, name }: GpuBrief, at: number): boolean => before?.gpus[at]?.index === index && before.gpus[at].name === name;
  const sameGpus = brief.gpus.length === before?.gpus.length && brief.gpus.every(isThere);
  return sameGpus && brief.name === before.name && JSON.stringify(brief.labels) === JSON.stringify(before.labels);
}

function merged(before: Figures | undefined, [, heardAt, cpu, memory, rows]: Moved): Figures {
  return {
    heardAt,
    cpuPercent: cpu === "=" ? (before?.cpuPercent ?? null) : cpu,
    memoryPercent: memory === "=" ? (before?.memoryPercent ?? null) : memory,
    parts: before ? rows.map((row, at) => mergedRow(before.parts[at] ?? UNKNOWN, row)) : (rows as Row[]),
  };
}

function mergedRow(before: Row, row: MovedRow): Row {
  if (row === "=") return before;
  return before.map((old, at) => (row[at] === "=" ? old : (row[at] ?? null))) as Row;
}

function inPlaces(node: Node): Gpu[] {
  let at = 0;
  const next = (): Row => node.figures.parts[at++] ?? UNKNOWN;
  return node.brief.gpus.map((brief) => ({
    node,
    brief,
    figures: next(),
    instances: brief.instances.map((instance) => ({ brief: instance, figures: next() })),
  }));
}
