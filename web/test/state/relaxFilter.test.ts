import { expect, test } from "vitest";
import type { Term } from "../../src/state/filterMatch";
import { bestTermToDrop } from "../../src/state/relaxFilter";
import { FLEET } from "../fleets";

const word = (key: Term["key"], value: string): Term => ({ key, op: ":", values: [value], bound: null, negated: false });

test("the term whose removal leaves the most matches is suggested", () => {
  const terms = [word("state", "held"), word("node", "a2")];
  expect(bestTermToDrop(FLEET.everyGpu(), ["held", "node:a2"], terms)).toEqual({ term: "held", matches: 2 });
  expect(bestTermToDrop(FLEET.everyGpu(), ["held", "node:b"], [word("state", "held"), word("node", "b")])).toBeNull();
});

test("nothing is suggested while text and parsed terms differ", () => {
  expect(bestTermToDrop(FLEET.everyGpu(), ["held"], [])).toBeNull();
});
