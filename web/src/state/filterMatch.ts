// Whether a GPU matches the terms of a filter; the same rules as model/filter.py, which parses the text.
// Both are tested with the same table, tests/filter_cases.json.

import type { Term } from "../feed/types";
import type { Gpu } from "./fleet";

export type { Term };

const MIB = 2 ** 20;

/** Whether a GPU matches every term. */
export function matchesAll(terms: readonly Term[], gpu: Gpu): boolean {
  return terms.every((term) => matches(term, gpu) !== term.negated);
}

function matches({ key, op, values, bound }: Term, gpu: Gpu): boolean {
  if (bound !== null) {
    const figure = FIGURES[key]?.(gpu) ?? null;
    return figure !== null && compare(figure, op, bound);
  }
  const texts = TEXTS[key]?.(gpu) ?? [];
  return texts.some((text) => text !== null && values.some((value) => matchesPattern(text.toLowerCase(), value)));
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
  state: ({ info }) => [info.verdict.state, ...info.instances.map((part) => part.verdict.state)],
  node: ({ node }) => [node.info.name],
  site: ({ node }) => [node.info.site],
  model: ({ info }) => [info.name],
  user: ({ info }) => info.verdict.users ?? [],
  label: ({ node }) => Object.entries(node.info.labels).flatMap(([name, value]) => [name, `${name}=${value}`]),
  why: ({ info }) => [info.verdict.reason, info.verdict.was],
  driver: ({ node }) => [node.info.driver_version],
  gpu: ({ info }) => [String(info.index)],
  uuid: ({ info }) => [info.uuid, ...info.instances.map((part) => part.uuid)],
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
