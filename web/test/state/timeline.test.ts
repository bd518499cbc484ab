import { expect, it } from "vitest";
import type { Strip, StripRun } from "../../src/feed/types";
import { Node } from "../../src/state/fleet";
import { holdingOf, mergeRows, refreshSeconds, segmentAt, segmentsOf, stripColumns, timelinesByNode } from "../../src/state/timeline";
import { blockLabel } from "../../src/text/history";
import { gpu, node } from "../builders";

const SPAN = { start: 0, end: 100 };

function run(start: number, end: number, fields: Partial<StripRun> = {}): StripRun {
  return { start, end, state: "busy", user: "priya", others: 0, busy_percent: 90, ...fields };
}

function strip(index: number, runs: StripRun[], fields: Partial<Strip["gpu"]> = {}): Strip {
  return { gpu: { uuid: `GPU-${index}`, node_id: "id", node: "gpu01", index, vendor: "nvidia", model: null, memory_total_bytes: null, parent: null, ...fields }, runs };
}

it("runs that differ only in load are one segment with the mean load", () => {
  const found = segmentsOf([run(0, 30, { busy_percent: 100 }), run(30, 40, { busy_percent: 20 }), run(40, 100, { state: "held" })], SPAN);
  expect(found.map(({ start, end, state, busyPercent }) => [start, end, state, busyPercent])).toEqual([
    [0, 40, "busy", 80],
    [40, 100, "held", 90],
  ]);
});

it("time without reports is a segment of its own", () => {
  const found = segmentsOf([run(20, 50), run(60, 90)], SPAN);
  expect(found.map(({ start, end, state }) => [start, end, state])).toEqual([
    [0, 20, null],
    [20, 50, "busy"],
    [50, 60, null],
    [60, 90, "busy"],
    [90, 100, null],
  ]);
  expect(blockLabel(found[0] as never)).toBe("silent");
});

it("equal segments of neighbouring GPUs are merged into one block", () => {
  const [node] = timelinesByNode([strip(0, [run(0, 100)]), strip(1, [run(0, 100, { busy_percent: 30 })]), strip(2, [run(0, 50), run(50, 100, { user: "ivan" })])], SPAN);
  expect(node?.blocks.map(({ row, rows, user, start, end }) => [row, rows, user, start, end])).toEqual([
    [0, 2, "priya", 0, 100],
    [2, 1, "priya", 0, 50],
    [2, 1, "ivan", 50, 100],
  ]);
  expect(node?.blocks[0]?.busyPercent).toBe(60);
});

it("equal segments of distant GPUs are not merged", () => {
  const rows = [[run(0, 100)], [run(0, 100, { user: "" , state: "free" })], [run(0, 100)]].map((runs) => segmentsOf(runs, SPAN));
  expect(mergeRows(rows).map(({ row, rows: tall }) => [row, tall])).toEqual([[0, 1], [1, 1], [2, 1]]);
});

it("every moment has a segment, including the last", () => {
  const found = segmentsOf([run(0, 40), run(40, 100, { user: "ivan" })], SPAN);
  expect([0, 39, 40, 100].map((at) => segmentAt(found, at)?.user)).toEqual(["priya", "priya", "ivan", "ivan"]);
  expect(segmentAt(found, 101)).toBeUndefined();
});

it("a GPU of which only the instances have users says so", () => {
  const part = strip(0, [run(0, 100)], { uuid: "MIG-a", parent: "GPU-0" });
  const [node] = timelinesByNode([strip(0, [run(0, 60, { user: "" }), run(60, 100)]), part], SPAN);
  expect(node?.segments[0]?.map(blockLabel)).toEqual(["MIG", "priya"]);
});

it("nodes are in natural order", () => {
  const rows = ["gpu10", "gpu9", "gpu1"].map((name) => strip(0, [run(0, 100)], { node: name, node_id: name }));
  expect(timelinesByNode(rows, SPAN).map(({ name }) => name)).toEqual(["gpu1", "gpu9", "gpu10"]);
});

it("at the shown moment the holding comes from the fleet", () => {
  const holdings = (silent: boolean): ReturnType<typeof holdingOf>[] => {
    const info = { ...node(1, [gpu(0, "busy", ["priya", "ivan"]), gpu(1)]), silent };
    const shown = new Node(info, { reportedAt: 0, cpuPercent: null, memoryPercent: null, rows: [] });
    return ["GPU-0", "GPU-1", "GPU-9"].map((uuid) => holdingOf(shown, uuid));
  };
  expect(holdings(false)).toEqual([{ state: "busy", user: "priya", others: 1 }, { state: "free", user: "", others: 0 }, undefined]);
  expect(holdings(true)[0]?.state).toBe(null);
});

it("timelines of a large fleet are coarser, and loaded less often", () => {
  expect([0, 100, 8000].map((gpus) => stripColumns(gpus, false))).toEqual([240, 240, 240]);
  expect([stripColumns(100, true), stripColumns(40_000, false), stripColumns(40_000, true), stripColumns(1e6, false)]).toEqual([96, 50, 50, 24]);
  expect([refreshSeconds(86_400, 240, false), refreshSeconds(3600, 240, false), refreshSeconds(86_400, 96, true), refreshSeconds(86_400, 50, false)]).toEqual([60, 15, 60, 1728]);
});
