import { expect, it } from "vitest";
import table from "../../../tests/filter_cases.json";
import { type Term, countMatches } from "../../src/state/filterMatch";
import { knownTerms, modelWord, suggest } from "../../src/state/suggestions";
import { Tally } from "../../src/state/tally";
import { gpuOf } from "../gpus";

const FREE = termsOf("free");

const GPUS = [
  gpuOf({ uuid: "1", labels: { rack: "a" } }),
  gpuOf({ uuid: "2", state: "busy", users: ["alice"], labels: { rack: "a" } }),
  gpuOf({ uuid: "3", node: "gpu02", state: "busy", users: ["alice", "bob"], model: "NVIDIA A100-SXM4-80GB" }),
  gpuOf({ uuid: "4", node: "gpu02", state: "held", users: ["svc chat"], model: "NVIDIA GeForce RTX 4090", used_mebibytes: 81_000 }),
];
const KNOWN = knownTerms(new Tally(GPUS, []));

function words(typed: string, terms: readonly Term[] = []): string[] {
  return suggest(KNOWN, new Tally(GPUS, terms), typed).narrow.map(({ word, count }) => `${word} ${count.gpus}`);
}

function termsOf(text: string): Term[] {
  const found = table.cases.find((each) => each.text === text);
  if (!found) throw new Error(`no such case: ${text}`);
  return found.terms as Term[];
}

it("an empty box suggests terms of several kinds, with match counts", () => {
  const { narrow, more } = suggest(KNOWN, new Tally(GPUS, []), "");
  expect(narrow.map(({ word, count }) => `${word} ${count.gpus}`)).toEqual(["free 1", "mem>40G 3", "model:H100 2", "held 1"]);
  expect(more.map(({ word }) => word)).toEqual(["user:alice", "label:rack=a"]);
});

it("typed text is completed from the fleet", () => {
  expect(words("us")).toEqual(["used>1G 1", "user:alice 2", "user:bob 1", 'user:"svc chat" 1']);
  expect(words("user:a")).toEqual(["user:alice 2"]);
  expect(words("ali")).toEqual(["user:alice 2"]);
  expect(words("rtx")).toEqual(['model:"RTX 4090" 1']);
  expect(words("-user:a")).toEqual(["-user:alice 2"]);
  expect(words("rack")).toEqual(["label:rack=a 2"]);
  expect(words("mem").slice(0, 3)).toEqual(["mem>40G 3", "mem>20G 3", "held 1"]);
});

it("counts agree with a scan of all GPUs", () => {
  for (const terms of [[], FREE]) {
    const within = new Tally(GPUS, terms);
    for (const { term } of KNOWN) {
      for (const each of [term, { ...term, negated: true }]) expect(within.count(each)).toEqual(countMatches([...terms, each], GPUS));
    }
  }
});

it("a term without matches is not suggested", () => {
  expect(words("user:", FREE)).toEqual([]);
});

it("a complete term is not suggested again", () => {
  expect(words("user:alice")).toEqual([]);
});

it("a model is named by its distinctive part", () => {
  expect(["NVIDIA A100-SXM4-80GB", "NVIDIA RTX 6000 Ada", "AMD Instinct MI300X"].map(modelWord)).toEqual(["A100", "RTX 6000 Ada", "Instinct MI300X"]);
});
