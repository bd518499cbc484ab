// For a filter without matches: which term to drop to get the most.

import { type Term, matchesAll } from "./filterMatch";
import type { Gpu } from "./fleet";

export interface DroppedTerm {
  term: string;
  /** How many GPUs match without it. */
  matches: number;
}

/** The term whose removal leaves the most matches. `texts` are the terms as typed, in the same order. */
export function bestTermToDrop(gpus: readonly Gpu[], texts: readonly string[], terms: readonly Term[]): DroppedTerm | null {
  if (texts.length !== terms.length) return null;
  const options = texts.map((term, at) => ({ term, matches: gpus.filter((gpu) => matchesAll(terms.toSpliced(at, 1), gpu)).length }));
  const best = options.sort((a, b) => b.matches - a.matches)[0];
  return best && best.matches > 0 ? best : null;
}
