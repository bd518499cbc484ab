// Suggestions of the search box: terms that match something in this fleet, with the number of GPUs.

import { STATES } from "../feed/state";
import { shortModel } from "../text/format";
import { METRIC_TERMS, NODE_MEANING, STATE_TERM_MEANING, labelMeaning, modelMeaning, userMeaning } from "../text/search";
import { type MatchCount, type Term, countMatches, matchesAll } from "./filterMatch";
import { formatTerm } from "./filterText";
import type { Gpu } from "./fleet";

export interface Suggestion {
  readonly word: string;
  readonly meaning: string;
  /** How many GPUs and MIG instances match it, of those that the rest of the filter matches. */
  readonly count: MatchCount;
}

export interface Suggestions {
  readonly narrow: readonly Suggestion[];
  readonly more: readonly Suggestion[];
}

/** A term that could be suggested. */
export interface Candidate {
  readonly word: string;
  readonly meaning: string;
  readonly term: Term;
}

const MAX_SUGGESTIONS = 7;
// Counting matches is slow in a large fleet: only the best candidates are counted.
const MAX_COUNTED = 10;
const NARROW_COUNT = 4;

/** Suggest completions of `typed`, counted within what the other `terms` match. */
export function suggest(all: readonly Candidate[], gpus: readonly Gpu[], typed: string, terms: readonly Term[]): Suggestions {
  const within = gpus.filter((gpu) => matchesAll(terms, gpu));
  if (typed) {
    const prefix = plain(typed);
    const candidates = typed.startsWith("-") ? all.map(excluding) : all;
    const fitting = MATCHERS.flatMap((matches) => candidates.filter((each) => each.word !== typed && matches(each, prefix)));
    const counted = [...new Set(fitting)].slice(0, MAX_COUNTED).map((each) => count(each, within)).filter((each) => total(each) > 0);
    return { narrow: counted.slice(0, MAX_SUGGESTIONS), more: [] };
  }
  const counted = firstOfEach(all).map((each) => count(each, within));
  const useful = counted.filter((each) => total(each) > 0 && each.count.gpus < within.length);
  return { narrow: useful.slice(0, NARROW_COUNT), more: useful.slice(NARROW_COUNT, MAX_SUGGESTIONS) };
}

/** How a term can match a prefix: by its start, by its value, or in its description; best first. */
const MATCHERS: readonly ((candidate: Candidate, prefix: string) => boolean)[] = [
  ({ word }, prefix) => plain(word).startsWith(prefix),
  ({ word }, prefix) => plain(word).slice(word.search(/[:<>]/) + 1).startsWith(prefix),
  ({ meaning }, prefix) => prefix.length > 2 && meaning.includes(prefix),
];

function plain(word: string): string {
  return word.toLowerCase().replaceAll('"', "");
}

function excluding({ word, meaning, term }: Candidate): Candidate {
  return { word: `-${word}`, meaning: `not: ${meaning}`, term: { ...term, negated: true } };
}

function total({ count: { gpus, instances } }: Suggestion): number {
  return gpus + instances;
}

function count({ word, meaning, term }: Candidate, within: readonly Gpu[]): Suggestion {
  return { word, meaning, count: countMatches([term], within) };
}

/** For an empty box: one term of each kind, the most useful first. */
function firstOfEach(all: readonly Candidate[]): Candidate[] {
  const wanted = ["free", "mem>40G", "model:", "held", "user:", "node:", "label:", "idle>1h"];
  return wanted.flatMap((word) => all.find((each) => each.word === word || (word.endsWith(":") && each.word.startsWith(word))) ?? []);
}

/** All terms that match something in this fleet, the most common of each kind first. */
export function knownTerms(gpus: readonly Gpu[]): Candidate[] {
  const nodes = [...new Set(gpus.map((gpu) => gpu.node.info))];
  const models = [...new Set(mostCommon(gpus.map((gpu) => gpu.info.name)).map(modelWord))];
  const users = mostCommon(gpus.flatMap((gpu) => gpu.info.verdict.users ?? []));
  const labels = mostCommon(nodes.flatMap((node) => Object.entries(node.labels).map(([name, value]) => `${name}=${value}`)));
  return [
    ...STATES.map((state) => ({ word: state, meaning: STATE_TERM_MEANING[state], term: like("state", state) })),
    ...METRIC_TERMS.map(({ word, key, op, bound, meaning }) => ({ word, meaning, term: { key, op, values: [], bound, negated: false } })),
    ...models.map((model) => candidate("model", model, modelMeaning(models.filter((other) => other !== model)), `*${model}*`)),
    ...users.map((user) => candidate("user", user, userMeaning(user))),
    ...nodePatterns(nodes.map((node) => node.name)).map((pattern) => candidate("node", pattern, NODE_MEANING)),
    ...labels.map((label) => candidate("label", label, labelMeaning(label.split("=")[0] ?? ""))),
  ];
}

function candidate(key: Term["key"], value: string, meaning: string, pattern = value): Candidate {
  return { word: formatTerm(key, value), meaning, term: like(key, pattern.replaceAll('"', "*").toLowerCase()) };
}

function like(key: Term["key"], value: string): Term {
  return { key, op: ":", values: [value], bound: null, negated: false };
}

/** "A100" of "NVIDIA A100-SXM4-80GB"; the whole short name if its first part has no digits. */
export function modelWord(name: string): string {
  const short = shortModel(name);
  const first = short.split(/[ -]/)[0] ?? short;
  return /\d/.test(first) ? first : short;
}

/** The names of the nodes, after the most common prefix: "gpu0*". */
function nodePatterns(all: readonly string[]): string[] {
  const names = [...new Set(all)];
  const shared = mostCommon(names.map((name) => (/\d$/.test(name) ? `${name.slice(0, -1)}*` : null)));
  return [...shared.slice(0, 1), ...names];
}

/** Unique names, the most common first. */
function mostCommon(names: readonly (string | null)[]): string[] {
  const counts = new Map<string | null, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  const sorted = [...counts].sort((a, b) => b[1] - a[1] || ((a[0] ?? "") < (b[0] ?? "") ? -1 : 1));
  return sorted.flatMap(([name]) => name ?? []);
}
