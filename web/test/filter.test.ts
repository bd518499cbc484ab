import { expect, it } from "vitest";
import table from "../../tests/filter_cases.json";
import { type Term, isLike, matchesAll } from "../src/state/terms";
import { completed, has, keyed, toggled, unfinished, wordsOf } from "../src/state/typed";
import { type GpuRow, gpuOf } from "./gpus";

const GPUS = (table.gpus as unknown as GpuRow[]).map((row) => ({ id: row.id, gpu: gpuOf(row) }));

it.each(table.cases)("'$text' matches on the page what it matches at the hub", ({ terms, matches }) => {
  const found = GPUS.filter(({ gpu }) => matchesAll(terms as Term[], gpu));
  expect(found.map(({ id }) => id)).toEqual(matches);
});

it.each(table.cases)("'$text' has a term for each of its words", ({ text, terms }) => {
  expect(wordsOf(text)).toHaveLength(terms.length);
});

it("a star is anything, and nothing", () => {
  const fitting = ["ab", "aXb", "a*b"].filter((text) => isLike(text, "a*b"));
  expect(fitting).toEqual(["ab", "aXb", "a*b"]);
  expect([isLike("aba", "ab*ba"), isLike("", "*"), isLike("", ""), isLike("a", "")]).toEqual([false, true, true, false]);
});

it("a state is put in, beside another, and taken out", () => {
  expect(toggled("", "state:free")).toBe("state:free");
  expect(toggled("model:A100 state:free", "state:held")).toBe("model:A100 state:free,held");
  expect(toggled("free", "state:held")).toBe("state:free,held");
  expect(toggled("FREE gpu01", "state:free")).toBe("gpu01");
  expect(toggled("state:free,held", "state:free")).toBe("state:held");
  expect(toggled("-state:free", "state:free")).toBe("-state:free state:free");
});

it("what is toggled twice is as it was", () => {
  for (const word of ["state:free", "user:alice", 'user:"svc chat"', "mem>40G", "gpu01"]) {
    for (const text of ["", "busy", 'why:"ecc error" user:bob', "state:held,ghost"]) {
      const once = toggled(text, word);
      expect(has(once, word)).toBe(!has(text, word));
      expect(has(toggled(once, word), word)).toBe(has(text, word));
    }
  }
});

it("the word that is being typed is the one that is completed", () => {
  expect([unfinished("free us"), unfinished("free "), unfinished(""), unfinished('why:"ecc er')]).toEqual(["us", "", "", 'why:"ecc er']);
  expect(completed("free us", "user:alice")).toBe("free user:alice ");
  expect(completed("free ", "held")).toBe("free held ");
});

it("a value with blanks is written in quotes", () => {
  expect([keyed("user", "alice"), keyed("model", "RTX 6000"), keyed("node", 'a"b')]).toEqual(["user:alice", 'model:"RTX 6000"', "node:a*b"]);
});
