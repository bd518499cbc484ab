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

/** A word that means something in this fleet. */
export interface Candidate {
  readonly word: string;
  readonly meaning: string;
  readonly term: Term;
}

const MOST = 7;
const MOST_COUNTED = 10;
const FEW = 4;

/** Which of all words could stand in the place of the one that is being typed, beside the other `terms`. */
export function suggestions(all: readonly Candidate[], gpus: readonly Gpu[], typed: string, terms: readonly Term[]): Suggestions {
  const within = gpus.filter((gpu) => matchesAll(terms, gpu));
  if (typed) {
    const wanted = plain(typed);
    const words = typed.startsWith("-") ? all.map(excluding) : all;
    const fitting = BEGINNINGS.flatMap((begins) => words.filter((each) => each.word !== typed && begins(each, wanted)));
    const counted = [...new Set(fitting)].slice(0, MOST_COUNTED).map((each) => count(each, within)).filter((each) => each.count > 0);
    return { narrow: counted.slice(0, MOST), more: [] };
  }
  const told = firstOfEach(all).map((each) => count(each, within));
  const useful = told.filter((each) => each.count > 0 && each.count < within.length);
  return { narrow: useful.slice(0, FEW), more: useful.slice(FEW, MOST) };
}

function matching(gpus: readonly Gpu[], terms: readonly Term[]): number {
  return gpus.reduce((sum, gpu) => sum + Number(matchesAll(terms, gpu)), 0);
}

/** How a word may begin with what is typed: itself, by its value, or in what it means; the likeliest first. */
const BEGINNINGS: readonly ((candidate: Candidate, wanted: string) => boolean)[] = [
  ({ word }, wanted) => plain(word).startsWith(wanted),
  ({ word }, wanted) => plain(word).slice(word.search(/[:<>]/) + 1).startsWith(wanted),
  ({ meaning }, wanted) => wanted.length > 2 && meaning.includes(wanted),
];

function plain(word: string): string {
  return word.toLowerCase().replaceAll('"', "");
}

function excluding({ word, meaning, term }: Candidate): Candidate {
  return { word: `-${word}`, meaning: `not: ${meaning}`, term: { ...term, negated: true } };
}

function count({ word, meaning, term }: Candidate, within: readonly Gpu[]): Suggestion {
  return { word, meaning, count: matching(within, [term]) };
}

/** Of an empty box: one word of each kind, the most useful first. */
function firstOfEach(all: readonly Candidate[]): Candidate[] {
  const wanted = ["free", "mem>40G", "model:", "held", "user:", "node:", "label:", "idle>1h"];
  return wanted.flatMap((word) => all.find((each) => each.word === word || (word.endsWith(":") && each.word.startsWith(word))) ?? []);
}

/** All words that mean something in this fleet, of each kind those first that are the most common. */
export function vocabulary(gpus: readonly Gpu[]): Candidate[] {
  const nodes = [...new Set(gpus.map((gpu) => gpu.node.brief))];
  const models = [...new Set(commonest(gpus.map((gpu) => gpu.brief.name)).map(modelWord))];
  const users = commonest(gpus.flatMap((gpu) => gpu.brief.verdict.users ?? []));
  const labels = commonest(nodes.flatMap((node) => Object.entries(node.labels).map(([name, value]) => `${name}=${value}`)));
  return [
    ...STATES.map((state) => ({ word: state, meaning: STATE_MEANING[state], term: like("state", state) })),
    ...FIGURE_WORDS.map(({ word, key, op, bound, meaning }) => ({ word, meaning, term: { key, op, values: [], bound, negated: false } })),
    ...models.map((model) => candidate("model", model, modelMeaning(models.filter((other) => other !== model)), `*${model}*`)),
    ...users.map((user) => candidate("user", user, userMeaning(user))),
    ...nodePatterns(nodes.map((node) => node.name)).map((pattern) => candidate("node", pattern, NODE_MEANING)),
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
export function modelWord(name: string): string {
  const short = shortModel(name);
  const first = short.split(/[ -]/)[0] ?? short;
  return /\d/.test(first) ? first : short;
}

/** The names of the nodes, and before them what many share: "gpu0*". */
function nodePatterns(all: readonly string[]): string[] {
  const names = [...new Set(all)];
  const shared = commonest(names.map((name) => (/\d$/.test(name) ? `${name.slice(0, -1)}*` : null)));
  return [...shared.slice(0, 1), ...names];
}

/** Each once, the commonest first. */
function commonest(names: readonly (string | null)[]): string[] {
  const counts = new Map<string | null, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  const sorted = [...counts].sort((a, b) => b[1] - a[1] || ((a[0] ?? "") < (b[0] ?? "") ? -1 : 1));
  return sorted.flatMap(([name]) => name ?? []);
}
