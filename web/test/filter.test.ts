import { expect, it } from "vitest";
import table from "../../tests/filter_cases.json";
import { type Term, matchesPattern, matchesAll } from "../src/state/filterMatch";
import { completeTerm, hasTerm, formatTerm, toggleTerm, lastTerm, splitTerms } from "../src/state/filterText";
import { type GpuRow, gpuOf } from "./gpus";

const GPUS = (table.gpus as unknown as GpuRow[]).map((row) => ({ id: row.id, gpu: gpuOf(row) }));

it.each(table.cases)("'$text' matches on the page what it matches at the hub", ({ terms, matches }) => {
  const found = GPUS.filter(({ gpu }) => matchesAll(terms as Term[], gpu));
  expect(found.map(({ id }) => id)).toEqual(matches);
});

it.each(table.cases)("'$text' hasTerm a term for each of its words", ({ text, terms }) => {
  expect(splitTerms(text)).toHaveLength(terms.length);
});

it("a star is anything, and nothing", () => {
  const fitting = ["ab", "aXb", "a*b"].filter((text) => matchesPattern(text, "a*b"));
  expect(fitting).toEqual(["ab", "aXb", "a*b"]);
  expect([matchesPattern("aba", "ab*ba"), matchesPattern("", "*"), matchesPattern("", ""), matchesPattern("a", "")]).toEqual([false, true, true, false]);
});

it("a state is put in, beside another, and taken out", () => {
  expect(toggleTerm("", "state:free")).toBe("state:free");
  expect(toggleTerm("model:A100 state:free", "state:held")).toBe("model:A100 state:free,held");
  expect(toggleTerm("free", "state:held")).toBe("state:free,held");
  expect(toggleTerm("FREE gpu01", "state:free")).toBe("gpu01");
  expect(toggleTerm("state:free,held", "state:free")).toBe("state:held");
  expect(toggleTerm("-state:free", "state:free")).toBe("-state:free state:free");
});

it("what is toggleTerm twice is as it was", () => {
  for (const word of ["state:free", "user:alice", 'user:"svc chat"', "mem>40G", "gpu01"]) {
    for (const text of ["", "busy", 'why:"ecc error" user:bob', "state:held,ghost"]) {
      const once = toggleTerm(text, word);
      expect(hasTerm(once, word)).toBe(!hasTerm(text, word));
      expect(hasTerm(toggleTerm(once, word), word)).toBe(hasTerm(text, word));
    }
  }
});

it("the word that is being typed is the one that is completed", () => {
  expect([lastTerm("free us"), lastTerm("free "), lastTerm(""), lastTerm('why:"ecc er')]).toEqual(["us", "", "", 'why:"ecc er']);
  expect(completeTerm("free us", "user:alice")).toBe("free user:alice ");
  expect(completeTerm("free ", "held")).toBe("free held ");
});

it("a value with blanks is written in quotes", () => {
  expect([formatTerm("user", "alice"), formatTerm("model", "RTX 6000"), formatTerm("node", 'a"b')]).toEqual(["user:alice", 'model:"RTX 6000"', "node:a*b"]);
});
