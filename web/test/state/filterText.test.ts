import { expect, it } from "vitest";
import table from "../../../tests/filter_cases.json";
import { completeTerm, formatTerm, hasTerm, lastTerm, splitTerms, toggleTerm } from "../../src/state/filterText";

it.each(table.cases)("'$text' has one term per word", ({ text, terms }) => {
  expect(splitTerms(text)).toHaveLength(terms.length);
});

it("a state is added, combined with another, and removed", () => {
  expect(toggleTerm("", "state:free")).toBe("state:free");
  expect(toggleTerm("model:A100 state:free", "state:held")).toBe("model:A100 state:free,held");
  expect(toggleTerm("free", "state:held")).toBe("state:free,held");
  expect(toggleTerm("FREE gpu01", "state:free")).toBe("gpu01");
  expect(toggleTerm("state:free,held", "state:free")).toBe("state:held");
  expect(toggleTerm("-state:free", "state:free")).toBe("-state:free state:free");
});

it("toggling twice changes nothing", () => {
  for (const word of ["state:free", "user:alice", 'user:"svc chat"', "mem>40G", "gpu01"]) {
    for (const text of ["", "busy", 'why:"ecc error" user:bob', "state:held,ghost"]) {
      const once = toggleTerm(text, word);
      expect(hasTerm(once, word)).toBe(!hasTerm(text, word));
      expect(hasTerm(toggleTerm(once, word), word)).toBe(hasTerm(text, word));
    }
  }
});

it("the term that is being typed is completed", () => {
  expect([lastTerm("free us"), lastTerm("free "), lastTerm(""), lastTerm('why:"ecc er')]).toEqual(["us", "", "", 'why:"ecc er']);
  expect(completeTerm("free us", "user:alice")).toBe("free user:alice ");
  expect(completeTerm("free ", "held")).toBe("free held ");
});

it("a value with spaces is quoted", () => {
  expect([formatTerm("user", "alice"), formatTerm("model", "RTX 6000"), formatTerm("node", 'a"b')]).toEqual(["user:alice", 'model:"RTX 6000"', "node:a*b"]);
});
