import { describe, expect, it } from "vitest";
import type { GpuPayload } from "../../src/feed/types";
import { type Instance, type NodeFigures, Node } from "../../src/state/fleet";
import { idleHoldings } from "../../src/state/idleHoldings";
import { askMessage, gridCellText, fillPercent, groupHeading, loadClass, nodeSummary, shortGroupHeading, silentText, shortProfile, sliceLabel, usersText } from "../../src/text/grid";
import { gpu, node } from "../builders";
import { fleetWith, singleGpu } from "../fleets";

const NOW = 1000 + 41 * 60 + 2 * 3600;

describe("the texts of a cell", () => {
  it("show the user, the number of other users, and the load", () => {
    expect(gridCellText(singleGpu({}, { users: ["priya", "omar", "mei"] }), NOW)).toEqual({
      who: "priya", more: ["omar", "mei"], below: "73/80 GiB", figure: "97", unit: "%",
    });
  });

  it("show how long it has been free, and its size", () => {
    expect(gridCellText(singleGpu({}, { state: "free", users: [] }), NOW)).toMatchObject({ who: "free", below: "for 2 h 41", figure: "80", unit: " GB" });
  });

  it("show how long a held GPU has been idle", () => {
    expect(gridCellText(singleGpu({}, { state: "held", users: ["mei"], idle_since: NOW - 90 }), NOW)).toMatchObject({ who: "mei", below: "idle 1 m", figure: "" });
  });

  it("show the last state of a silent GPU, and why one is broken", () => {
    expect(gridCellText(singleGpu({}, { state: "unknown", users: null, was: "busy (mei)" }), NOW)).toMatchObject({ who: "—", below: "was busy (mei)" });
    expect(gridCellText(singleGpu({}, { state: "broken", reason: "lost" }), NOW)).toMatchObject({ who: "broken", below: "lost" });
  });

  it("leave out what was not measured", () => {
    const words = gridCellText(singleGpu({ memory_total_mebibytes: null }, { users: null }, [null, null, null, null]), NOW);
    expect(words).toMatchObject({ who: "unknown user", below: "", figure: "" });
  });
});

describe("fill and load", () => {
  it("have five steps, only for busy GPUs", () => {
    expect([0, 19, 20, 100, null].map((busy) => loadClass("busy", busy))).toEqual(["load-1", "load-1", "load-2", "load-5", "load-1"]);
    expect(loadClass("held", 50)).toBe("");
  });

  it("never exceed 100 %", () => {
    expect([fillPercent(40, 80), fillPercent(90, 80), fillPercent(null, 80), fillPercent(1, 0)]).toEqual([50, 100, 0, 0]);
  });
});

describe("headings", () => {
  it("name the label, or its absence", () => {
    expect(groupHeading("r01", "label:rack")).toBe("rack r01");
    expect(groupHeading(null, "label:rack")).toBe("no rack");
    expect(groupHeading(null, "user")).toBe("no user");
    expect(shortGroupHeading("r01", "label:rack")).toBe("r01");
  });

  it("of a node are short", () => {
    const named = { ...gpu(0), name: "NVIDIA A100-SXM4-40GB" };
    const figures = (reportedAt: number | null): NodeFigures => ({ reportedAt, cpuPercent: null, memoryPercent: null, rows: [] });
    expect(nodeSummary(new Node(node(1, [named]), figures(null)))).toBe("A100 40G · 550.90");
    expect(silentText(new Node(node(1), figures(NOW - 240)), NOW)).toBe("silent for 4 min");
  });
});

describe("a slice of a GPU", () => {
  it("shows the user if it is wide, and one letter if not", () => {
    const info = { uuid: "MIG-1", profile: "1g.10gb", memory_total_mebibytes: 10_000, nominal_gigabytes: 10, verdict: gpu(0, "busy", ["chen"]).verdict };
    const instance: Instance = { info, figures: [1, 2, 3, 4] };
    expect(sliceLabel(instance)).toBe("MIG 1g.10gb, busy, chen");
    expect(sliceLabel({ ...instance, info: { ...info, profile: null, verdict: gpu(0, "free").verdict } })).toBe("MIG instance, free");
    expect(shortProfile(instance)).toBe("1g");
  });
});

describe("idle holdings", () => {
  it("are grouped by user and node, the longest idle first, with a message to send", () => {
    const held = (index: number, user: string, since: number): GpuPayload => {
      const info = gpu(index, "held", [user]);
      return { ...info, verdict: { ...info.verdict, idle_since: since } };
    };
    const fleet = fleetWith(node(1, [held(0, "mei", 900), held(1, "omar", 500), held(2, "mei", 800)]), [0, 1024, 3, 4], [0, 2048, 3, 4], [0, 1024, 3, 4]);
    const [first, second] = idleHoldings(fleet, () => true);
    expect(first).toMatchObject({ user: "omar", idleSince: 500, mebibytes: 2048 });
    expect(second).toMatchObject({ user: "mei", idleSince: 800, mebibytes: 2048 });
    expect(second && askMessage(second, 920)).toBe("mei, do you still need GPU 0, 2 on gpu01? It has been idle for 2 min.");
    expect(idleHoldings(fleet, () => false)).toEqual([]);
  });

  it("name at most three users", () => {
    const many = singleGpu({}, { users: ["a", "b", "c", "d", "e"] });
    expect(usersText([many, many])).toBe("a, b, c +2");
    expect(usersText([])).toBe("no users");
  });
});
