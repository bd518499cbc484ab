// Whether a GPU matches the terms of a filter; the same rules as model/filter.py, which parses the text.
// Both are tested with the same table, tests/filter_cases.json.

import type { Term } from "../feed/types";
import { memoryForRequest } from "./cardSize";
import type { Gpu, Instance } from "./fleet";

export type { Term };

export interface MatchCount {
  readonly gpus: number;
  readonly instances: number;
}

const MIB = 2 ** 20;
const NOMINAL_KEYS: ReadonlySet<string> = new Set(["mem", "total"]);

/** Whether a GPU matches every term, or one of its MIG instances does. */
export function matchesAll(terms: readonly Term[], gpu: Gpu): boolean {
  return matchesDevice(terms, gpu) || gpu.instances.some((instance) => matchesDevice(terms, instanceAsGpu(gpu, instance)));
}

/** How many of these GPUs match by themselves, and how many MIG instances do. */
export function countMatches(terms: readonly Term[], gpus: readonly Gpu[]): MatchCount {
  let [matching, instances] = [0, 0];
  for (const gpu of gpus) {
    if (matchesDevice(terms, gpu)) matching += 1;
    for (const instance of gpu.instances) if (matchesDevice(terms, instanceAsGpu(gpu, instance))) instances += 1;
  }
  return { gpus: matching, instances };
}

/** A GPU and its MIG instances, each as a GPU of its own. */
export function devicesOf(gpu: Gpu): Gpu[] {
  return [gpu, ...gpu.instances.map((instance) => instanceAsGpu(gpu, instance))];
}

export function matchesDevice(terms: readonly Term[], gpu: Gpu): boolean {
  return terms.every((term) => matches(term, gpu) !== term.negated);
}

/** A MIG instance as a GPU of its own, with its profile in the name of the model. */
function instanceAsGpu({ node, info, figures }: Gpu, instance: Instance): Gpu {
  const name = [info.name, instance.info.profile].filter(Boolean).join(" ") || null;
  const [load, memory] = instance.figures;
  return { node, info: { ...info, ...instance.info, name, instances: [] }, figures: [load, memory, figures[2], figures[3]], instances: [] };
}

function matches({ key, op, values, bound }: Term, gpu: Gpu): boolean {
  if (bound !== null) {
    const figure = FIGURES[key]?.(gpu) ?? null;
    return figure !== null && compare(NOMINAL_KEYS.has(key) ? counted(gpu, figure, bound) : figure, op, bound);
  }
  const texts = TEXTS[key]?.(gpu) ?? [];
  return texts.some((text) => text !== null && values.some((value) => matchesPattern(text.toLowerCase(), value)));
}

/** The memory of a GPU, compared with a size: a nominal size means that card. */
function counted({ info }: Gpu, memory: number, bound: number): number {
  return memoryForRequest(memory, bytes(info.memory_total_mebibytes), info.nominal_gigabytes, bound);
}

function compare(figure: number, op: Term["op"], bound: number): boolean {
  if (op === "<") return figure < bound;
  if (op === "<=") return figure <= bound;
  return op === ">" ? figure > bound : figure >= bound;
}

/** Whether the whole text matches the pattern, in which `*` stands for any text. */
export function matchesPattern(text: string, pattern: string): boolean {
  const parts = pattern.split("*");
  const first = parts.shift() ?? "";
  const last = parts.pop();
  if (last === undefined) return text === pattern;
  if (!text.startsWith(first)) return false;
  let at = first.length;
  for (const part of parts) {
    const found = text.indexOf(part, at);
    if (found < 0) return false;
    at = found + part.length;
  }
  return text.length - last.length >= at && text.endsWith(last);
}

const TEXTS: Record<string, (gpu: Gpu) => readonly (string | null)[]> = {
  word: ({ node, info }) => [node.info.name, info.name, ...(info.verdict.users ?? [])],
  state: ({ info }) => [info.verdict.state],
  node: ({ node }) => [node.info.name],
  site: ({ node }) => [node.info.site],
  model: ({ info }) => [info.name],
  user: ({ info }) => info.verdict.users ?? [],
  label: ({ node }) => Object.entries(node.info.labels).flatMap(([name, value]) => [name, `${name}=${value}`]),
  why: ({ info }) => [info.verdict.reason, info.verdict.was],
  driver: ({ node }) => [node.info.driver_version],
  gpu: ({ info }) => [String(info.index)],
  uuid: ({ info }) => [info.uuid],
};

const FIGURES: Record<string, (gpu: Gpu) => number | null> = {
  mem: current(free),
  used: current((gpu) => bytes(gpu.figures[1])),
  total: (gpu) => bytes(gpu.info.memory_total_mebibytes),
  load: current((gpu) => gpu.figures[0]),
  temp: current((gpu) => gpu.figures[2]),
  power: current((gpu) => gpu.figures[3]),
  idle: current(idle),
};

/** A figure that changes all the time: unknown on a silent node. */
function current(figure: (gpu: Gpu) => number | null): (gpu: Gpu) => number | null {
  return (gpu) => (gpu.node.info.silent ? null : figure(gpu));
}

function bytes(mebibytes: number | null): number | null {
  return mebibytes === null ? null : mebibytes * MIB;
}

function free({ info, figures }: Gpu): number | null {
  const [total, used] = [info.memory_total_mebibytes, figures[1]];
  return total === null || used === null || used > total ? null : (total - used) * MIB;
}

function idle({ node, info }: Gpu): number | null {
  const [reportedAt, since] = [node.figures.reportedAt, info.verdict.idle_since];
  return reportedAt === null || since === null ? null : reportedAt - since;
}
