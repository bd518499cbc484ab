import { expect, it } from "vitest";
import table from "../../../tests/filter_cases.json";
import { type Term, matchesAll, matchesPattern } from "../../src/state/filterMatch";
import { type GpuRow, gpuOf } from "../gpus";

const GPUS = (table.gpus as unknown as GpuRow[]).map((row) => ({ id: row.id, gpu: gpuOf(row) }));

it.each(table.cases)("'$text' matches on the page what it matches at the hub", ({ terms, matches }) => {
  const found = GPUS.filter(({ gpu }) => matchesAll(terms as Term[], gpu));
  expect(found.map(({ id }) => id)).toEqual(matches);
});

it("a star matches any text, even none", () => {
  const fitting = ["ab", "aXb", "a*b"].filter((text) => matchesPattern(text, "a*b"));
  expect(fitting).toEqual(["ab", "aXb", "a*b"]);
  expect([matchesPattern("aba", "ab*ba"), matchesPattern("", "*"), matchesPattern("", ""), matchesPattern("a", "")]).toEqual([false, true, true, false]);
});
