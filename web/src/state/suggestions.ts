// Suggestions of the search box: terms that match something in this fleet, with the number of GPUs.

import { STATES } from "../feed/state";
import { shortModel } from "../text/format";
import { METRIC_TERMS, NODE_MEANING, STATE_TERM_MEANING, labelMeaning, modelMeaning, userMeaning } from "../text/search";
import type { MatchCount, Term } from "./filterMatch";
import { formatTerm } from "./filterText";
import type { Tally } from "./tally";

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
  /** The word in lower case and without quotes, and its value: what typed text is compared with. */
  readonly plain: string;
  readonly value: string;
}

const MAX_SUGGESTIONS = 7;
// Counting a pattern is slow in a large fleet: only the best candidates are counted.
const MAX_COUNTED = 10;
const NARROW_COUNT = 4;

/** Suggest completions of `typed`, counted within what the other terms match. */
export function suggest(all: readonly Candidate[], within: Tally, typed: string): Suggestions {
  if (typed) {
    const prefix = plain(typed);
    const negated = prefix.startsWith("-");
    const fitting = bestMatches(all, negated ? prefix.slice(1) : prefix).map((each) => (negated ? excluding(each) : each));
    const counted = fitting.filter((each) => each.word !== typed).map((each) => count(each, within)).filter((each) => total(each) > 0);
    return { narrow: counted.slice(0, MAX_SUGGESTIONS), more: [] };
  }
  const counted = firstOfEach(all).map((each) => count(each, within));
  const useful = counted.filter((each) => total(each) > 0 && each.count.gpus < within.total.gpus);
  return { narrow: useful.slice(0, NARROW_COUNT), more: useful.slice(NARROW_COUNT, MAX_SUGGESTIONS) };
}

/** How a term can match a prefix: by its start, by its value, or in its description; best first. */
const MATCHERS: readonly ((candidate: Candidate, prefix: string) => boolean)[] = [
  ({ plain }, prefix) => plain.startsWith(prefix),
  ({ value }, prefix) => value.startsWith(prefix),
  ({ meaning }, prefix) => prefix.length > 2 && meaning.includes(prefix),
];

/** The first candidates that match a prefix, the best kind of match first. */
function bestMatches(all: readonly Candidate[], prefix: string): Candidate[] {
  const found = new Set<Candidate>();
  for (const matches of MATCHERS) {
    for (const each of all) {
      if (found.size > MAX_COUNTED) return [...found];
      if (matches(each, prefix)) found.add(each);
    }
  }
  return [...found];
}

function plain(word: string): string {
  return word.toLowerCase().replaceAll('"', "");
}

function excluding({ word, meaning, term, ...rest }: Candidate): Candidate {
  return { ...rest, word: `-${word}`, meaning: `not: ${meaning}`, term: { ...term, negated: true } };
}

function total({ count: { gpus, instances } }: Suggestion): number {
  return gpus + instances;
}

function count({ word, meaning, term }: Candidate, within: Tally): Suggestion {
  return { word, meaning, count: within.count(term) };
}

/** For an empty box: one term of each kind, the most useful first. */
function firstOfEach(all: readonly Candidate[]): Candidate[] {
  const wanted = ["free", "mem>40G", "model:", "held", "user:", "node:", "label:", "idle>1h"];
  return wanted.flatMap((word) => all.find((each) => each.word === word || (word.endsWith(":") && each.word.startsWith(word))) ?? []);
}

/** All terms that match something in this fleet, the most common of each kind first. */
export function knownTerms(fleet: Tally): Candidate[] {
  const models = [...new Set(fleet.names("model").map(modelWord))];
  return [
    ...STATES.map((state) => candidateOf(state, STATE_TERM_MEANING[state], like("state", state))),
    ...METRIC_TERMS.map(({ word, key, op, bound, meaning }) => candidateOf(word, meaning, { key, op, values: [], bound, negated: false })),
    ...models.map((model) => candidate("model", model, modelMeaning(models.filter((other) => other !== model)), `*${model}*`)),
    ...fleet.names("user").map((user) => candidate("user", user, userMeaning(user))),
    ...nodePatterns(fleet.names("node")).map((pattern) => candidate("node", pattern, NODE_MEANING)),
    ...fleet.names("label").map((label) => candidate("label", label, labelMeaning(label.split("=")[0] ?? ""))),
  ];
}

function candidate(key: Term["key"], value: string, meaning: string, pattern = value): Candidate {
  return candidateOf(formatTerm(key, value), meaning, like(key, pattern.replaceAll('"', "*").toLowerCase()));
}

function candidateOf(word: string, meaning: string, term: Term): Candidate {
  return { word, meaning, term, plain: plain(word), value: plain(word.slice(word.search(/[:<>]/) + 1)) };
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
function nodePatterns(names: readonly string[]): string[] {
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
