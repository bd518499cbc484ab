import { expect, test } from "vitest";
import { VIEWS, hashOf, placeOf } from "../src/state/route";

test("a place is written and read back", () => {
  for (const view of VIEWS) {
    for (const argument of ["", "gpu01", "files:/nfs/gpu status?#%", "名前/…"]) {
      for (const query of ["", "free", "mem>40G user:alice", "a+b & c=d #?/%"]) {
        const place = { view, argument: view === "grid" ? "" : argument, query };
        expect(placeOf(hashOf(place))).toEqual(place);
      }
    }
  }
});

test("an address is short and can be read", () => {
  expect(hashOf({ view: "grid", argument: "", query: "" })).toBe("#/");
  expect(hashOf({ view: "table", argument: "", query: "free model:A100" })).toBe("#/table?q=free+model:A100");
  expect(hashOf({ view: "grid", argument: "", query: "state:free,held mem>40G" })).toBe("#/?q=state:free,held+mem>40G");
  expect(hashOf({ view: "node", argument: "a/b", query: "" })).toBe("#/node/a%2Fb");
});

test("a hash that means nothing is the grid", () => {
  for (const hash of ["", "#", "#/", "#/nowhere", "#nonsense", "#/constructor"]) {
    expect(placeOf(hash)).toEqual({ view: "grid", argument: "", query: "" });
  }
  expect(placeOf("#/node/%E0%A4%A").argument).toBe("%E0%A4%A");
});
