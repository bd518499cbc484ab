import { expect, test } from "vitest";
import { VIEWS, formatHash, parseHash } from "../../src/state/route";

test("an address is formatted and parsed back", () => {
  for (const view of VIEWS) {
    for (const argument of ["", "gpu01", "files:/nfs/gpu status?#%", "名前/…"]) {
      for (const query of ["", "free", "mem>40G user:alice", "a+b & c=d #?/%"]) {
        for (const [at, range, zoom] of [[null, "", ""], [1_794_808_800, "24h", "2026-11-15T03:00Z..2026-11-15T04:00Z"], [1_794_808_801, "a&b", "?"]] as const) {
          const place = { view, argument: view === "grid" ? "" : argument, query, at, range, zoom, compare: view === "gpu" ? "GPU-1" : "" };
          expect(parseHash(formatHash(place))).toEqual(place);
        }
      }
    }
  }
});

test("an address is short and readable", () => {
  const usual = { argument: "", query: "", at: null, range: "", zoom: "", compare: "" };
  expect(formatHash({ ...usual, view: "grid" })).toBe("#/");
  expect(formatHash({ ...usual, view: "table", query: "free model:A100" })).toBe("#/table?q=free+model:A100");
  expect(formatHash({ ...usual, view: "grid", query: "state:free,held mem>40G" })).toBe("#/?q=state:free,held+mem>40G");
  expect(formatHash({ ...usual, view: "node", argument: "a/b" })).toBe("#/node/a%2Fb");
  expect(formatHash({ ...usual, view: "grid", at: Date.UTC(2026, 10, 15, 3, 12) / 1000 })).toBe("#/?at=2026-11-15T03:12Z");
  expect(formatHash({ ...usual, view: "history", query: "node:a", range: "7d" })).toBe("#/history?q=node:a&range=7d");
});

test("an unknown hash is the grid", () => {
  for (const hash of ["", "#", "#/", "#/nowhere", "#nonsense", "#/constructor", "#/?at=soon"]) {
    expect(parseHash(hash)).toEqual({ view: "grid", argument: "", query: "", at: null, range: "", zoom: "", compare: "" });
  }
  expect(parseHash("#/node/%E0%A4%A").argument).toBe("%E0%A4%A");
});
