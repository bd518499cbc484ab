import { expect, it } from "vitest";
import { ApiError } from "../../src/feed/client";
import type { Strip, StripRun } from "../../src/feed/types";
import { segmentsOf } from "../../src/state/timeline";
import { blockAriaLabel, blockLabel, coverageText, formatEnergy, formatHours, formatHoursUnit, formatShare, gpuIndex, noHistoryText } from "../../src/text/history";
import { momentText } from "../../src/text/time";

const SPAN = { start: 0, end: 100 };
const DAY = 86_400;

function run(start: number, end: number, fields: Partial<StripRun> = {}): StripRun {
  return { start, end, state: "busy", user: "priya", others: 0, busy_percent: 90, ...fields };
}

function midnight(): number {
  return new Date(2026, 10, 14).getTime() / 1000;
}

function strip(index: number, runs: StripRun[], fields: Partial<Strip["gpu"]> = {}): Strip {
  return { gpu: { uuid: `GPU-${index}`, node_id: "id", node: "gpu01", index, vendor: "nvidia", model: null, memory_total_bytes: null, parent: null, ...fields }, runs };
}

it("a block is labelled with its user", () => {
  const [busy, held] = segmentsOf([run(0, 40, { others: 2 }), run(40, 100, { state: "held", user: "(unseen)" })], SPAN);
  expect([busy, held].map((each) => each && blockLabel(each))).toEqual(["priya +2", "Unknown user idle"]);
  expect(busy && blockAriaLabel(busy, "gpu01 GPU 0")).toMatch(/^gpu01 GPU 0: priya and 2 more, busy, 90 %, /);
});

it("a moment is written relative to today", () => {
  const now = midnight() + 20 * 3600;
  expect(momentText(midnight() + 3 * 3600 + 12 * 60, now)).toBe("03:12 today");
  expect(momentText(midnight() - 60, now)).toBe("23:59 yesterday");
  expect(momentText(midnight() - 3 * DAY, now)).toBe("2026-11-11 00:00");
  expect(coverageText({ nodes: 11, nodes_reporting: 9 })).toBe("9 of 11 nodes reporting.");
  expect(coverageText({ nodes: 2000, nodes_reporting: 1999 })).toBe("1,999 of 2,000 nodes reporting.");
});

it("hours, energy and shares are short, and a share of zero is a dash", () => {
  expect([0, 29, 1800, 36_000, 9e6].map(formatHours)).toEqual(["0", "<0.1", "0.5", "10", "2,500"]);
  expect([0, 29, 1800, 3600, 9e6].map(formatHoursUnit)).toEqual(["0 h", "29 s", "30 min", "1.0 h", "2,500 h"]);
  expect([0, 1e5, 1.8e6, 3.6e9, 1.44e11].map(formatEnergy)).toEqual(["—", "<0.1 kWh", "0.5 kWh", "1,000 kWh", "40.0 MWh"]);
  expect([formatShare(1, 3), formatShare(1, 900), formatShare(0, 9), formatShare(0, 0)]).toEqual(["33 %", "<1 %", "0 %", "—"]);
});

it("a MIG instance is named by its GPU and its index", () => {
  const parts = ["MIG-a", "MIG-b"].map((uuid) => strip(3, [], { uuid, parent: "GPU-3" }).gpu);
  const gpus = [strip(3, []).gpu, ...parts];
  expect(gpus.map((gpu) => gpuIndex(gpu, gpus))).toEqual(["3", "3:0", "3:1"]);
});

it("a new node has no history yet, and a hub without history says so itself", () => {
  const off = "this hub keeps no history: hub.history is off";
  expect(noHistoryText(new ApiError(404, "unknown_node", "no node has the name or id a"))).toBe("no history yet");
  expect(noHistoryText(new ApiError(404, "not_kept", off))).toBe(off);
});
