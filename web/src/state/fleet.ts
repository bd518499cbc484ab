// What the page believes of the fleet: the events of the stream, added up. No judging here.

import type { Figure, FleetEvent, GpuBrief, InstanceBrief, Moved, MovedRow, NodeBrief, Row, Summary } from "../feed/event";

const UNKNOWN: Row = [null, null, null, null];

export interface Figures {
  heardAt: number | null;
  cpuPercent: Figure;
  memoryPercent: Figure;
  parts: Row[];
}

/** A node with its figures; another object whenever anything of it is another. */
export interface Node {
  readonly brief: NodeBrief;
  readonly figures: Figures;
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
  private readonly gpus = new WeakMap<Node, Gpu[]>();

  /** Take an event in: `fleet` is everything anew, `change` what is new. */
  apply(kind: "fleet" | "change", event: FleetEvent): void {
    if (kind === "fleet") this.nodes.clear();
    this.takenAt = event.taken_at;
    this.summary = event.summary;
    for (const number of event.removed) this.nodes.delete(number);
    const briefs = new Map(event.nodes.map((node) => [node.number, node]));
    for (const moved of event.figures) {
      const number = moved[0];
      const known = this.nodes.get(number);
      const brief = briefs.get(number) ?? known?.brief;
      if (brief) this.nodes.set(number, { brief, figures: merged(known?.figures, moved) });
    }
  }

  /** The GPUs of all nodes. */
  everyGpu(): Gpu[] {
    return [...this.nodes.values()].flatMap((node) => this.gpusOf(node));
  }

  /** The GPUs of a node; the same objects as long as the node is the same. */
  gpusOf(node: Node): readonly Gpu[] {
    let found = this.gpus.get(node);
    if (!found) {
      found = inPlaces(node);
      this.gpus.set(node, found);
    }
    return found;
  }
}

function merged(before: Figures | undefined, [, heardAt, cpu, memory, rows]: Moved): Figures {
  return {
    heardAt,
    cpuPercent: cpu === "=" ? (before?.cpuPercent ?? null) : cpu,
    memoryPercent: memory === "=" ? (before?.memoryPercent ?? null) : memory,
    parts: rows.map((row, at) => mergedRow(before?.parts[at] ?? UNKNOWN, row)),
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
