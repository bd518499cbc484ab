// What the search box offers: words that mean something in this fleet, and how many GPUs each would leave.

import { STATES } from "../feed/event";
import { FIGURE_WORDS, NODE_MEANING, STATE_MEANING, labelMeaning, modelMeaning, userMeaning } from "../text/find";
import { shortModel } from "../text/words";
import type { Gpu } from "./fleet";
import { type Term, matchesAll } from "./terms";
import { keyed } from "./typed";

export interface Suggestion {
  readonly word: string;
  readonly meaning: string;
  /** How many GPUs match it and the rest of the filter. */
  readonly count: number;
}

export interface Suggestions {
  readonly narrow: readonly Suggestion[];
  readonly more: readonly Suggestion[];
}

/** One of the words of a filter, its place among them, and how many GPUs match without it. */
export interface Obstacle {
  readonly word: string;
  readonly at: number;
  readonly count: number;
}

interface Candidate {
  readonly word: string;
  readonly meaning: string;
  readonly term: Term;
}

const MOST = 7;
const FEW = 4;

/** What could stand in the place of the word that is being typed, beside the other `terms`. */
export function suggestions(gpus: readonly Gpu[], typed: string, terms: readonly Term[]): Suggestions {
  const within = gpus.filter((gpu) => matchesAll(terms, gpu));
  const all = candidates(gpus);
  if (typed) {
    const wanted = typed.toLowerCase().replaceAll('"', "");
    const fitting = all.filter((each) => each.word !== typed && begins(each, wanted)).slice(0, 2 * MOST);
    const counted = fitting.map((each) => count(each, within)).filter((each) => each.count > 0);
    return { narrow: counted.slice(0, MOST), more: [] };
  }
  const told = firstOfEach(all).map((each) => count(each, within));
  const useful = told.filter((each) => each.count > 0 && each.count < within.length);
  const narrow = useful.slice(0, FEW);
  return { narrow, more: useful.slice(FEW, MOST) };
}

/** The word that stands most in the way: without it the most is left. */
export function tooNarrow(gpus: readonly Gpu[], words: readonly string[], terms: readonly Term[]): Obstacle | null {
  let worst: Obstacle | null = null;
  for (const [at, word] of words.entries()) {
    const count = matching(gpus, terms.toSpliced(at, 1));
    if (count > (worst?.count ?? 0)) worst = { word, at, count };
  }
  return worst;
}

function matching(gpus: readonly Gpu[], terms: readonly Term[]): number {
  return gpus.reduce((sum, gpu) => sum + Number(matchesAll(terms, gpu)), 0);
}

function begins({ word, meaning }: Candidate, wanted: string): boolean {
  const small = word.toLowerCase().replaceAll('"', "");
  const value = small.slice(small.search(/[:<>]/) + 1);
  return small.startsWith(wanted) || value.startsWith(wanted) || (wanted.length > 2 && meaning.includes(wanted));
}

function count({ word, meaning, term }: Candidate, within: readonly Gpu[]): Suggestion {
  return { word, meaning, count: matching(within, [term]) };
}

/** Of an empty box: one word of each kind, the most useful first. */
function firstOfEach(all: readonly Candidate[]): Candidate[] {
  const wanted = ["free", "mem>40G", "model:", "held", "user:", "node:", "label:", "idle>1h"];
  return wanted.flatMap((word) => all.find((each) => each.word === word || (word.endsWith(":") && each.word.startsWith(word))) ?? []);
}

function candidates(gpus: readonly Gpu[]): Candidate[] {
  const models = commonest(gpus.map((gpu) => modelWord(gpu.brief.name)));
  const users = commonest(gpus.flatMap((gpu) => gpu.brief.verdict.users ?? []));
  const labels = commonest(gpus.flatMap((gpu) => Object.entries(gpu.node.brief.labels).map(([name, value]) => `${name}=${value}`)));
  return [
    ...STATES.map((state) => ({ word: state, meaning: STATE_MEANING[state], term: like("state", state) })),
    ...FIGURE_WORDS.map(({ word, key, op, bound, meaning }) => ({ word, meaning, term: { key, op, values: [], bound, negated: false } })),
    ...models.map((model) => candidate("model", model, modelMeaning(models.filter((other) => other !== model)), `*${model}*`)),
    ...users.map((user) => candidate("user", user, userMeaning(user))),
    ...nodePatterns(gpus).map((pattern) => candidate("node", pattern, NODE_MEANING)),
    ...labels.map((label) => candidate("label", label, labelMeaning(label.split("=")[0] ?? ""))),
  ];
}

function candidate(key: string, value: string, meaning: string, pattern = value): Candidate {
  return { word: keyed(key, value), meaning, term: like(key, pattern.replaceAll('"', "*").toLowerCase()) };
}

function like(key: string, value: string): Term {
  return { key, op: ":", values: [value], bound: null, negated: false };
}

/** "A100" of "NVIDIA A100-SXM4-80GB"; the whole short name where its first part says too little. */
export function modelWord(name: string | null): string | null {
  if (name === null) return null;
  const short = shortModel(name);
  const first = short.split(/[ -]/)[0] ?? short;
  return /\d/.test(first) ? first : short;
}

/** The names of the nodes, and before them what many share: "gpu0*". */
function nodePatterns(gpus: readonly Gpu[]): string[] {
  const names = [...new Set(gpus.map((gpu) => gpu.node.brief.name))];
  const shared = commonest(names.map((name) => (/\d$/.test(name) ? `${name.slice(0, -1)}*` : null)));
  return [...shared.slice(0, 1), ...names];
}

/** Each once, the commonest first. */
function commonest(names: readonly (string | null)[]): string[] {
  const counts = new Map<string, number>();
  for (const name of names) if (name !== null) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1)).map(([name]) => name);
}
