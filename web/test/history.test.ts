import { expect, it } from "vitest";
import { ApiError } from "../src/feed/client";
import type { StripRun, Strip } from "../src/feed/types";
import { timelinesByNode, mergeRows, holdingOf, segmentAt, segmentsOf } from "../src/state/timeline";
import { Node } from "../src/state/fleet";
import { visibleSpan, parseDays, parseRange, clampToHistory, spanOfDays, stepMoment, spanEndingAt } from "../src/state/range";
import { layers, nearestMoment } from "../src/state/ribbon";
import { seriesCsv, stripsCsv } from "../src/state/csvExport";
import { percentOfSpan, ticks } from "../src/state/ticks";
import { blockAria, blockLabel, clockTime, coverageText, formatEnergy, formatHours, formatHoursUnit, gpuIndex, momentText, noHistoryText, formatShare } from "../src/text/history";
import { gpu, node } from "./builders";

const SPAN = { start: 0, end: 100 };
const DAY = 86_400;

function run(start: number, end: number, fields: Partial<StripRun> = {}): StripRun {
  return { start, end, state: "busy", user: "priya", others: 0, busy_percent: 90, ...fields };
}

function strip(index: number, runs: StripRun[], fields: Partial<Strip["gpu"]> = {}): Strip {
  return { gpu: { uuid: `GPU-${index}`, node_id: "id", node: "gpu01", index, model: null, memory_total_bytes: null, parent: null, ...fields }, runs };
}

function midnight(): number {
  return new Date(2026, 10, 14).getTime() / 1000;
}

it("runs of one person that only the load parts are one stretch, of the mean load", () => {
  const found = segmentsOf([run(0, 30, { busy_percent: 100 }), run(30, 40, { busy_percent: 20 }), run(40, 100, { state: "held" })], SPAN);
  expect(found.map(({ start, end, state, busyPercent }) => [start, end, state, busyPercent])).toEqual([
    [0, 40, "busy", 80],
    [40, 100, "held", 90],
  ]);
});

it("where nobody heard the node, that is a stretch of its own", () => {
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

it("neighbouring GPUs that one person had for the same time melt into one block", () => {
  const [node] = timelinesByNode([strip(0, [run(0, 100)]), strip(1, [run(0, 100, { busy_percent: 30 })]), strip(2, [run(0, 50), run(50, 100, { user: "ivan" })])], SPAN);
  expect(node?.blocks.map(({ row, rows, user, start, end }) => [row, rows, user, start, end])).toEqual([
    [0, 2, "priya", 0, 100],
    [2, 1, "priya", 0, 50],
    [2, 1, "ivan", 50, 100],
  ]);
  expect(node?.blocks[0]?.busyPercent).toBe(60);
});

it("GPUs of one person that are not neighbours stay apart", () => {
  const rows = [[run(0, 100)], [run(0, 100, { user: "" , state: "free" })], [run(0, 100)]].map((runs) => segmentsOf(runs, SPAN));
  expect(mergeRows(rows).map(({ row, rows: tall }) => [row, tall])).toEqual([[0, 1], [1, 1], [2, 1]]);
});

it("every moment of a strip is told, its last included", () => {
  const found = segmentsOf([run(0, 40), run(40, 100, { user: "ivan" })], SPAN);
  expect([0, 39, 40, 100].map((at) => segmentAt(found, at)?.user)).toEqual(["priya", "priya", "ivan", "ivan"]);
  expect(segmentAt(found, 101)).toBeUndefined();
});

it("a block says who had it, and what became of it", () => {
  const [busy, held] = segmentsOf([run(0, 40, { others: 2 }), run(40, 100, { state: "held", user: "(unseen)" })], SPAN);
  expect([busy, held].map((each) => each && blockLabel(each))).toEqual(["priya +2", "not visible idle"]);
  expect(busy && blockAria(busy, "gpu01 GPU 0")).toMatch(/^gpu01 GPU 0: priya and 2 more, busy, 90 %, /);
});

it("what is shown ends now, unless the moment is before it", () => {
  expect(visibleSpan(null, 1000, 100, null)).toEqual(spanEndingAt(1000, 100));
  expect(visibleSpan(950, 1000, 100, null)).toEqual(spanEndingAt(1000, 100));
  expect(visibleSpan(500, 1000, 100, null)).toEqual({ start: 450, end: 550 });
});

it("what is shown does not move while the moment is within it", () => {
  const before = { start: 450, end: 550 };
  expect(visibleSpan(540, 1000, 100, before)).toBe(before);
  expect(visibleSpan(560, 1000, 100, before)).toEqual({ start: 510, end: 610 });
  expect(visibleSpan(540, 1000, 200, before)).toEqual({ start: 440, end: 640 });
});

it("steps fall on whole steps, and beyond now is now", () => {
  expect(stepMoment(null, -1, 600, 10_000)).toBe(9600);
  expect(stepMoment(9601, -1, 600, 10_000)).toBe(9600);
  expect(stepMoment(9000, 1, 600, 10_000)).toBe(9600);
  expect(stepMoment(9600, 1, 600, 10_000)).toBeNull();
});

it("what is older than all that is kept is left out, but an hour stays", () => {
  const span = { start: 0, end: 100_000 };
  expect([null, -5, 40_000, 99_999].map((oldest) => clampToHistory(span, oldest).start)).toEqual([0, 0, 40_000, 96_400]);
});

it("any days are a range, by the reader's clock and up to now", () => {
  expect(["2026-11-12..2026-11-13", "2026-11-13..2026-11-12", "7d", "soon..now"].map(parseDays)).toEqual([["2026-11-12", "2026-11-13"], null, null, null]);
  expect(spanOfDays(["2026-11-12", "2026-11-13"], midnight() + DAY)).toEqual({ start: midnight() - 2 * DAY, end: midnight() });
  expect(spanOfDays(["2026-11-14", "2026-11-14"], midnight() + 7200).end).toBe(midnight() + 7200);
});

it("a range that is not offered is the usual one", () => {
  expect([parseRange("7d", "24h"), parseRange("1h", "7d", ["24h", "7d"]), parseRange("soon", "24h")]).toEqual(["7d", "7d", "24h"]);
});

it("marks of a time axis are round by the reader's clock, and no more than there is room for", () => {
  const start = midnight() + 5 * 3600 + 7;
  for (const [seconds, most] of [[3600, 6], [DAY, 12], [7 * DAY, 7], [30 * DAY, 10], [90 * DAY, 8]] as const) {
    const { at } = ticks({ start, end: start + seconds }, most);
    expect(at.length).toBeGreaterThan(1);
    expect(at.length).toBeLessThanOrEqual(most + 1);
    expect(at.every((each) => each >= start && each <= start + seconds && new Date(each * 1000).getSeconds() === 0)).toBe(true);
  }
  expect(ticks({ start: midnight(), end: midnight() + DAY }, 12).at.map(clockTime).slice(0, 3)).toEqual(["00:00", "02:00", "04:00"]);
  expect(percentOfSpan({ start: 10, end: 20 }, 15)).toBe(50);
});

it("a moment is said by the day it lies on", () => {
  const now = midnight() + 20 * 3600;
  expect(momentText(midnight() + 3 * 3600 + 12 * 60, now)).toBe("03:12 today");
  expect(momentText(midnight() - 60, now)).toBe("23:59 yesterday");
  expect(momentText(midnight() - 3 * DAY, now)).toMatch(/^00:00 on \w{3} 11$/);
  expect(coverageText({ nodes: 11, nodes_reporting: 9 })).toBe("9 of 11 nodes were reporting.");
});

it("the ribbon stacks what is in use, and leaves out what is free", () => {
  const moments = [0, 10].map((at) => ({ at, nodes: 1, nodes_reporting: 1, gpus: { busy: 2, held: 1, free: 1 } }));
  const drawn = layers({ start: 0, end: 20, moments, gaps: [] }, { width: 100, height: 20, columns: 2 });
  expect(drawn.map(({ state }) => state)).toEqual(["busy", "held", "ghost", "broken"]);
  expect(drawn[0]?.path).toBe("M0.0 20.0V10.0H50.0V20.0ZM50.0 20.0V10.0H100.0V20.0Z");
  expect(drawn[1]?.path.startsWith("M0.0 10.0V5.0")).toBe(true);
  expect(drawn[3]?.path).toBe("");
  expect(nearestMoment({ start: 0, end: 20, moments, gaps: [] }, 14)?.at).toBe(10);
});

it("hours, formatEnergy and shares are said shortly, and nothing of nothing is a dash", () => {
  expect([0, 29, 1800, 36_000, 9e6].map(formatHours)).toEqual(["0", "<0.1", "0.5", "10", "2,500"]);
  expect([0, 29, 1800, 3600, 9e6].map(formatHoursUnit)).toEqual(["0 h", "29 s", "30 m", "1.0 h", "2,500 h"]);
  expect([0, 1e5, 1.8e6, 3.6e9].map(formatEnergy)).toEqual(["–", "<0.1 kWh", "0.5 kWh", "1,000 kWh"]);
  expect([formatShare(1, 3), formatShare(1, 900), formatShare(0, 9), formatShare(0, 0)]).toEqual(["33 %", "<1 %", "0 %", "–"]);
});

it("an instance is named by its GPU and its place in it", () => {
  const parts = ["MIG-a", "MIG-b"].map((uuid) => strip(3, [], { uuid, parent: "GPU-3" }).gpu);
  const gpus = [strip(3, []).gpu, ...parts];
  expect(gpus.map((gpu) => gpuIndex(gpu, gpus))).toEqual(["3", "3:0", "3:1"]);
});

it("a GPU in parts says so where nobody has the whole of it", () => {
  const part = strip(0, [run(0, 100)], { uuid: "MIG-a", parent: "GPU-0" });
  const [node] = timelinesByNode([strip(0, [run(0, 60, { user: "" }), run(60, 100)]), part], SPAN);
  expect(node?.stretches[0]?.map(blockLabel)).toEqual(["in parts", "priya"]);
});

it("nodes stand in the order of their names, numbers as numbers", () => {
  const rows = ["gpu10", "gpu9", "gpu1"].map((name) => strip(0, [run(0, 100)], { node: name, node_id: name }));
  expect(timelinesByNode(rows, SPAN).map(({ name }) => name)).toEqual(["gpu1", "gpu9", "gpu10"]);
});

it("what is saved has a row a run, and no cell is a formula", () => {
  const text = stripsCsv({ start: 0, end: 100, columns: 1, rows: [strip(0, [run(0, 60, { user: "=cmd" })])] });
  expect(text.split("\r\n")[1]).toBe("gpu01,0,GPU-0,1970-01-01T00:00:00.000Z,1970-01-01T00:01:00.000Z,busy,'=cmd,0,90");
});

it("saved figures have the least, the mean and the most, and unknown ones nothing", () => {
  const told = { minimum: [1, null], mean: [2, null], maximum: [3, null] };
  const text = seriesCsv({ start: 0, grain_seconds: 60, node: { cpu_percent: told }, gpus: { "GPU-0": { power_watts: told } } }, new Map([["GPU-0", "GPU 0"]]));
  expect(text.split("\r\n")).toEqual([
    "time,node cpu_percent min,node cpu_percent mean,node cpu_percent max,GPU 0 power_watts min,GPU 0 power_watts mean,GPU 0 power_watts max",
    "1970-01-01T00:00:00.000Z,1,2,3,1,2,3",
    "1970-01-01T00:01:00.000Z,,,,,,",
    "",
  ]);
});

it("at the moment that the page shows, a GPU stands as the fleet tells it", () => {
  const told = (silent: boolean): ReturnType<typeof holdingOf>[] => {
    const info = { ...node(1, [gpu(0, "busy", ["priya", "ivan"]), gpu(1)]), silent };
    const shown = new Node(info, { reportedAt: 0, cpuPercent: null, memoryPercent: null, parts: [] });
    return ["GPU-0", "GPU-1", "GPU-9"].map((uuid) => holdingOf(shown, uuid));
  };
  expect(told(false)).toEqual([{ state: "busy", user: "priya", others: 1 }, { state: "free", user: "", others: 0 }, undefined]);
  expect(told(true)[0]?.state).toBe(null);
});

it("a node that is new has no past yet, and a hub that keeps none says so itself", () => {
  const off = "this hub keeps no history: hub.history is off";
  expect(noHistoryText(new ApiError(404, "unknown_node", "no node has the name or id a"))).toBe("nothing is kept of it yet");
  expect(noHistoryText(new ApiError(404, "not_kept", off))).toBe(off);
});
