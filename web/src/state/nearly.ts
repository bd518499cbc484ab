// When nothing matches: which word of the filter to drop, and what that would leave.

import type { Gpu } from "./fleet";
import { type Term, matchesAll } from "./terms";

export interface Nearly {
  word: string;
  /** How many GPUs match without it. */
  left: number;
}

/** The word whose dropping leaves the most; a term stands for the word at its place. */
export function nearly(gpus: readonly Gpu[], words: readonly string[], terms: readonly Term[]): Nearly | null {
  if (words.length !== terms.length) return null;
  const left = words.map((word, at) => ({ word, left: gpus.filter((gpu) => matchesAll(terms.toSpliced(at, 1), gpu)).length }));
  const best = left.sort((a, b) => b.left - a.left)[0];
  return best && best.left > 0 ? best : null;
}
