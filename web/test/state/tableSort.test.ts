import { expect, it } from "vitest";
import { DEFAULT_SORT, StableSort, toggleSort } from "../../src/state/tableSort";
import { gpuOf } from "../gpus";

const GPUS = [
  gpuOf({ uuid: "free10", node: "gpu10", busy_percent: 0 }),
  gpuOf({ uuid: "busy2", node: "gpu2", index: 1, state: "busy", users: ["zoe"], busy_percent: 90 }),
  gpuOf({ uuid: "free2", node: "gpu2", busy_percent: null }),
  gpuOf({ uuid: "broken9", node: "gpu9", state: "broken", users: null, reason: "lost", busy_percent: 50 }),
];

function order(...[sort, held]: [Parameters<StableSort["sort"]>[1], boolean?]): string[] {
  return new StableSort().sort(GPUS, sort, held).map((gpu) => gpu.info.uuid);
}

it("what needs attention comes first, then by node", () => {
  expect(order(DEFAULT_SORT)).toEqual(["broken9", "free2", "free10", "busy2"]);
});

it("a click on a column title sorts, a second click reverses, and numbers start descending", () => {
  const byLoad = toggleSort(DEFAULT_SORT, "load");
  expect(order(byLoad)).toEqual(["busy2", "broken9", "free10", "free2"]);
  expect(order(toggleSort(byLoad, "load"))).toEqual(["free10", "broken9", "busy2", "free2"]);
  expect(order({ key: "node", descending: true })).toEqual(["free10", "broken9", "free2", "busy2"]);
});

it("frozen rows keep their order, without removed ones and with new ones last", () => {
  const rows = new StableSort();
  rows.sort(GPUS.slice(0, 3), { key: "node", descending: false });
  const held = rows.sort([...GPUS].reverse().slice(0, 3), DEFAULT_SORT, true);
  expect(held.map((gpu) => gpu.info.uuid)).toEqual(["free2", "busy2", "broken9"]);
});
