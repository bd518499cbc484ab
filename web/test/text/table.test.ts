import { expect, it } from "vitest";
import { COLUMNS, columnWidths, isSortable, tableCellText } from "../../src/text/table";
import { REPORTED_AT, gpuOf } from "../gpus";

const GPUS = [
  gpuOf({ uuid: "free10", node: "gpu10", busy_percent: 0 }),
  gpuOf({ uuid: "busy2", node: "gpu2", index: 1, state: "busy", users: ["zoe"], busy_percent: 90 }),
  gpuOf({ uuid: "free2", node: "gpu2", busy_percent: null }),
  gpuOf({ uuid: "broken9", node: "gpu9", state: "broken", users: null, reason: "lost", busy_percent: 50 }),
];

it("every column has a text for every GPU, and unknown is not zero", () => {
  const broken = GPUS[3];
  if (!broken) throw new Error("no such GPU");
  for (const gpu of GPUS) for (const { key } of COLUMNS) if (isSortable(key)) expect(typeof tableCellText(key, gpu, REPORTED_AT)).toBe("string");
  expect([tableCellText("who", broken, 0), tableCellText("why", broken, 0), tableCellText("memory", broken, 0)]).toEqual(["—", "lost", "0 / 80 GiB"]);
});

it("a column is as wide as its content, within limits", () => {
  const at = COLUMNS.findIndex(({ key }) => key === "node");
  const long = gpuOf({ node: "x".repeat(10_000) });
  expect([columnWidths(COLUMNS, GPUS, 0)[at], columnWidths(COLUMNS, [...GPUS, long], 0)[at]]).toEqual([9, 24]);
});
