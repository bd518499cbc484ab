// What a filter's terms mean for a GPU of the page; the twin of model/filter.py, which reads the text.
// Both are held to one table, tests/filter_cases.json.

import type { Gpu } from "./fleet";

/** One word of a filter, as the hub reads it: patterns after ":", a number after a comparison. */
export interface Term {
  readonly key: string;
  readonly op: ":" | "<" | "<=" | ">" | ">=";
  readonly values: readonly string[];
  readonly bound: number | null;
  readonly negated: boolean;
}

const MEBIBYTE = 2 ** 20;

/** Whether every term lets this GPU through. */
export function matchesAll(terms: readonly Term[], gpu: Gpu): boolean {
  return terms.every((term) => fits(term, gpu) !== term.negated);
}

function fits({ key, op, values, bound }: Term, gpu: Gpu): boolean {
  if (bound !== null) {
    const figure = FIGURES[key]?.(gpu) ?? null;
    return figure !== null && compares(figure, op, bound);
  }
  const texts = TEXTS[key]?.(gpu) ?? [];
  return texts.some((text) => text !== null && values.some((value) => isLike(text.toLowerCase(), value)));
}

function compares(figure: number, op: Term["op"], bound: number): boolean {
  if (op === "<") return figure < bound;
  if (op === "<=") return figure <= bound;
  return op === ">" ? figure > bound : figure >= bound;
}

/** Whether the pattern, in which `*` is anything, is the whole text. */
export function isLike(text: string, pattern: string): boolean {
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
  word: ({ node, brief }) => [node.brief.name, brief.name, ...(brief.verdict.users ?? [])],
  state: ({ brief }) => [brief.verdict.state, ...brief.instances.map((part) => part.verdict.state)],
  node: ({ node }) => [node.brief.name],
  model: ({ brief }) => [brief.name],
  user: ({ brief }) => brief.verdict.users ?? [],
  label: ({ node }) => Object.entries(node.brief.labels).flatMap(([name, value]) => [name, `${name}=${value}`]),
  why: ({ brief }) => [brief.verdict.reason, brief.verdict.was],
  driver: ({ node }) => [node.brief.driver_version],
  gpu: ({ brief }) => [String(brief.index)],
  uuid: ({ brief }) => [brief.uuid, ...brief.instances.map((part) => part.uuid)],
};

const FIGURES: Record<string, (gpu: Gpu) => number | null> = {
  mem: moving(free),
  used: moving((gpu) => bytes(gpu.figures[1])),
  total: (gpu) => bytes(gpu.brief.memory_total_mebibytes),
  load: moving((gpu) => gpu.figures[0]),
  temp: moving((gpu) => gpu.figures[2]),
  power: moving((gpu) => gpu.figures[3]),
  idle: moving(idle),
};

/** A figure that moves: of a silent node it is of another time, and so not known. */
function moving(figure: (gpu: Gpu) => number | null): (gpu: Gpu) => number | null {
  return (gpu) => (gpu.node.brief.silent ? null : figure(gpu));
}

function bytes(mebibytes: number | null): number | null {
  return mebibytes === null ? null : mebibytes * MEBIBYTE;
}

function free({ brief, figures }: Gpu): number | null {
  const [total, used] = [brief.memory_total_mebibytes, figures[1]];
  return total === null || used === null || used > total ? null : (total - used) * MEBIBYTE;
}

function idle({ node, brief }: Gpu): number | null {
  const [heardAt, since] = [node.figures.heardAt, brief.verdict.idle_since];
  return heardAt === null || since === null ? null : heardAt - since;
}
