import { expect, it } from "vitest";
import { DEFAULT_SORT, StableSort, toggleSort } from "../src/state/tableSort";
import { gpusCsv } from "../src/state/csv";
import { COLUMNS, cellText, columnWidths } from "../src/text/table";
import { HEARD_AT, gpuOf } from "./gpus";

const GPUS = [
  gpuOf({ uuid: "free10", node: "gpu10", busy_percent: 0 }),
  gpuOf({ uuid: "busy2", node: "gpu2", index: 1, state: "busy", users: ["zoe"], busy_percent: 90 }),
  gpuOf({ uuid: "free2", node: "gpu2", busy_percent: null }),
  gpuOf({ uuid: "broken9", node: "gpu9", state: "broken", users: null, reason: "lost", busy_percent: 50 }),
];

function order(...[sort, held]: [Parameters<StableSort["arranged"]>[1], boolean?]): string[] {
  return new StableSort().arranged(GPUS, sort, held).map((gpu) => gpu.info.uuid);
}

it("what needs attention comes first, then by place", () => {
  expect(order(DEFAULT_SORT)).toEqual(["broken9", "free2", "free10", "busy2"]);
});

it("a head that is toggleSort sorts by its column, again the other way, figures from the largest", () => {
  const byLoad = toggleSort(DEFAULT_SORT, "load");
  expect(order(byLoad)).toEqual(["busy2", "broken9", "free10", "free2"]);
  expect(order(toggleSort(byLoad, "load"))).toEqual(["free10", "broken9", "busy2", "free2"]);
  expect(order({ key: "node", falling: true })).toEqual(["free10", "broken9", "free2", "busy2"]);
});

it("rows that are held stay where they were, without those that are gone, new ones last", () => {
  const rows = new StableSort();
  rows.arranged(GPUS.slice(0, 3), { key: "node", falling: false });
  const held = rows.arranged([...GPUS].reverse().slice(0, 3), DEFAULT_SORT, true);
  expect(held.map((gpu) => gpu.info.uuid)).toEqual(["free2", "busy2", "broken9"]);
});

it("every column has words for every GPU, and what is not measured is no zero", () => {
  const broken = GPUS[3];
  if (!broken) throw new Error("no such GPU");
  for (const gpu of GPUS) for (const { key } of COLUMNS) expect(typeof cellText(key, gpu, HEARD_AT)).toBe("string");
  expect([cellText("who", broken, 0), cellText("why", broken, 0), cellText("memory", broken, 0)]).toEqual(["–", "lost", "0 / 80 G"]);
});

it("a column is as wide as what it holds, within bounds", () => {
  const at = COLUMNS.findIndex(({ key }) => key === "node");
  const long = gpuOf({ node: "x".repeat(10_000) });
  expect([columnWidths(GPUS, 0)[at], columnWidths([...GPUS, long], 0)[at]]).toEqual([9, 24]);
});

it("as CSV the unknown is empty and nothing is a formula", () => {
  const hostile = gpuOf({ node: '=cmd|"x"', users: null, model: null, busy_percent: null, state: "unknown", reason: "a, b\nc" });
  const [head = "", line = ""] = gpusCsv([hostile]).split("\r\n");
  expect(head.split(",")).toHaveLength(15);
  expect(line).toBe(`"'=cmd|""x""",0,unknown,1970-01-01T00:16:40.000Z,,,0,81920,33,70,,550.90.07,,GPU-usual,"a, b\nc"`);
});
