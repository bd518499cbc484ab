import { expect, it } from "vitest";
import type { Strip, StripRun } from "../../src/feed/types";
import { seriesCsv, stripsCsv } from "../../src/state/csvExport";

function run(start: number, end: number, fields: Partial<StripRun> = {}): StripRun {
  return { start, end, state: "busy", user: "priya", others: 0, busy_percent: 90, ...fields };
}

function strip(index: number, runs: StripRun[], fields: Partial<Strip["gpu"]> = {}): Strip {
  return { gpu: { uuid: `GPU-${index}`, node_id: "id", node: "gpu01", index, vendor: "nvidia", model: null, memory_total_bytes: null, parent: null, ...fields }, runs };
}

it("the CSV of strips has one row per run, and no cell is a formula", () => {
  const text = stripsCsv({ start: 0, end: 100, history_begins: null, columns: 1, rows: [strip(0, [run(0, 60, { user: "=cmd" })])] });
  expect(text.split("\r\n")[1]).toBe("gpu01,0,GPU-0,1970-01-01T00:00:00.000Z,1970-01-01T00:01:00.000Z,busy,'=cmd,0,90");
});

it("the CSV of series has minimum, mean and maximum, and unknown values are empty", () => {
  const figure = { minimum: [1, null], mean: [2, null], maximum: [3, null] };
  const text = seriesCsv({ start: 0, grain_seconds: 60, node: { cpu_percent: figure }, gpus: { "GPU-0": { power_watts: figure } } }, new Map([["GPU-0", "GPU 0"]]));
  expect(text.split("\r\n")).toEqual([
    "time,node cpu_percent min,node cpu_percent mean,node cpu_percent max,GPU 0 power_watts min,GPU 0 power_watts mean,GPU 0 power_watts max",
    "1970-01-01T00:00:00.000Z,1,2,3,1,2,3",
    "1970-01-01T00:01:00.000Z,,,,,,",
    "",
  ]);
});
