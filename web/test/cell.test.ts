import { describe, expect, it } from "vitest";
import type { GpuPayload, JudgedGpu, NodePayload, Process, VerdictPayload } from "../src/feed/types";
import type { Row } from "../src/state/fleet";
import { type Figures, Fleet, type Gpu, Node } from "../src/state/fleet";
import { idleHoldings } from "../src/state/idleHoldings";
import { cardFacts, processName, processesOf, cardReason, cardTitle } from "../src/text/card";
import { shortHeading, cellText, fillPercent, heading, nodeSummary, loadClass, usersText, askMessage, silentText, sliceText } from "../src/text/grid";
import { event, gpu, node } from "./builders";

const NOW = 1000 + 41 * 60 + 2 * 3600;

function fleetOf(info: NodePayload, ...figures: Row[]): Fleet {
  const fleet = new Fleet();
  fleet.apply("fleet", event({ nodes: [info], figures: [[info.number, 990, null, null, figures]] }));
  return fleet;
}

function only(info: Partial<GpuPayload>, verdict: Partial<VerdictPayload>, figures: Row = [97, 74_752, 65, 365]): Gpu {
  const whole = { ...gpu(0, "busy"), ...info };
  const fleet = fleetOf(node(1, [{ ...whole, verdict: { ...whole.verdict, ...verdict } }]), figures);
  const [found] = [...fleet.nodes.values()].flatMap((each) => each.gpus);
  if (!found) throw new Error("a node without its GPU");
  return found;
}

describe("the words of a cell", () => {
  it("say who is on it, how many more, and how much is used", () => {
    expect(cellText(only({}, { users: ["priya", "omar", "mei"] }), NOW)).toEqual({
      who: "priya", short: "Pr", more: ["omar", "mei"], below: "73/80 G", figure: "97", unit: "%",
    });
  });

  it("say how long it is free and how large it is", () => {
    expect(cellText(only({}, { state: "free", users: [] }), NOW)).toMatchObject({ who: "free", below: "for 2 h 41", figure: "80", unit: " G" });
  });

  it("say how long nothing was done on what is held", () => {
    expect(cellText(only({}, { state: "held", users: ["mei"], idle_since: NOW - 90 }), NOW)).toMatchObject({ who: "mei", below: "idle 1 m", figure: "" });
  });

  it("say what a silent one was, and why one is broken", () => {
    expect(cellText(only({}, { state: "unknown", users: null, was: "busy (mei)" }), NOW)).toMatchObject({ who: "–", below: "was busy (mei)" });
    expect(cellText(only({}, { state: "broken", reason: "lost" }), NOW)).toMatchObject({ who: "broken", below: "lost" });
  });

  it("leave out what was not measured", () => {
    const words = cellText(only({ memory_total_mebibytes: null }, { users: null }, [null, null, null, null]), NOW);
    expect(words).toMatchObject({ who: "somebody", below: "", figure: "" });
  });
});

describe("fill and load", () => {
  it("are steps of five, and of busy GPUs alone", () => {
    expect([0, 19, 20, 100, null].map((busy) => loadClass("busy", busy))).toEqual(["load-1", "load-1", "load-2", "load-5", "load-1"]);
    expect(loadClass("held", 50)).toBe("");
  });

  it("are never more than all", () => {
    expect([fillPercent(40, 80), fillPercent(90, 80), fillPercent(null, 80), fillPercent(1, 0)]).toEqual([50, 100, 0, 0]);
  });
});

describe("headings", () => {
  it("name the label, or say that it is missing", () => {
    expect(heading("r01", "label:rack")).toBe("rack r01");
    expect(heading(null, "label:rack")).toBe("no rack");
    expect(heading(null, "user")).toBe("nobody");
    expect(shortHeading("r01", "label:rack")).toBe("r01");
  });

  it("of a node are short", () => {
    const named = { ...gpu(0), name: "NVIDIA A100-SXM4-40GB" };
    const figures = (reportedAt: number | null): Figures => ({ reportedAt, cpuPercent: null, memoryPercent: null, parts: [] });
    expect(nodeSummary(new Node(node(1, [named]), figures(null)))).toBe("A100 40G · 550.90");
    expect(silentText(new Node(node(1), figures(NOW - 240)), NOW)).toBe("silent for 4 m");
  });
});

describe("a slice of a GPU", () => {
  it("has a name where it is wide, and a letter where it is not", () => {
    const info = { uuid: "MIG-1", profile: "1g.10gb", memory_total_mebibytes: 10_000, verdict: gpu(0, "busy", ["chen"]).verdict };
    expect(sliceText({ info, figures: [1, 2, 3, 4] }, true)).toBe("chen");
    expect(sliceText({ info, figures: [1, 2, 3, 4] }, false)).toBe("C");
  });
});

describe("what is held and idle", () => {
  it("is told by person and node, the longest first, with a askMessage to send", () => {
    const held = (index: number, user: string, since: number): GpuPayload => {
      const info = gpu(index, "held", [user]);
      return { ...info, verdict: { ...info.verdict, idle_since: since } };
    };
    const fleet = fleetOf(node(1, [held(0, "mei", 900), held(1, "omar", 500), held(2, "mei", 800)]), [0, 1024, 3, 4], [0, 2048, 3, 4], [0, 1024, 3, 4]);
    const [first, second] = idleHoldings(fleet, () => true);
    expect(first).toMatchObject({ user: "omar", idleSince: 500, mebibytes: 2048 });
    expect(second).toMatchObject({ user: "mei", idleSince: 800, mebibytes: 2048 });
    expect(second && askMessage(second, 920)).toBe("mei, do you still need GPU 0, 2 on gpu01? No work for 2 m.");
    expect(idleHoldings(fleet, () => false)).toEqual([]);
  });

  it("names three people at most", () => {
    const many = only({}, { users: ["a", "b", "c", "d", "e"] });
    expect(usersText([many, many])).toBe("a, b, c +2");
    expect(usersText([])).toBe("nobody");
  });
});

describe("the card", () => {
  const process: Process = {
    pid: 7, pid_is_made: false, kind: "compute", gpu_memory_bytes: 1, user: "mei", name: "python", command: null,
    started_at: null, busy_percent: null, container: null, slurm_job: null, condition: null, hidden: false,
  };
  const full: JudgedGpu = {
    uuid: "GPU-0", processes: null, verdict: { state: "busy", reason: "", since: 0, was: null, notes: [], idle_seconds: null }, power_limit_watts: 700, sm_clock_mhz: null,
    sm_clock_max_mhz: 1980, memory_clock_mhz: 2619, pcie_generation: 5, pcie_width: 16, throttle_reasons: ["sw_power_cap"], ecc_uncorrected: 0,
    fault: null, instances: [],
  };

  it("says who and why from the stream alone", () => {
    const held = only({}, { state: "held", users: ["mei", "omar"], idle_since: NOW - 60 });
    expect(cardTitle(held)).toBe("held by mei and 1 more");
    expect(cardReason(held, NOW)).toBe("keeps 73 of 80 GiB and has done nothing for 1 m");
  });

  it("shows more when the node was looked at, and a dash for what was not measured", () => {
    expect(cardFacts(only({}, {}), undefined)).toHaveLength(4);
    const told = Object.fromEntries(cardFacts(only({}, {}), full).map(({ name, value, rest }) => [name, `${value} ${rest ?? ""}`.trim()]));
    expect(told).toMatchObject({ Power: "365 / 700 W", "SM clock": "– / 1980", PCIe: "gen 5 ×16", Throttling: "sw power cap" });
  });

  it("tells processes that could not be read from none, and counts those of instances", () => {
    expect(processesOf(full)).toBeNull();
    expect(processesOf({ ...full, processes: [] })).toEqual([]);
    const instance = { uuid: "MIG-1", profile: null, verdict: full.verdict, processes: [process], memory_used_bytes: 1, memory_total_bytes: 2, busy_percent: null };
    expect(processesOf({ ...full, instances: [instance] })).toEqual([process]);
  });

  it("names a process by what the reader may see of it", () => {
    expect(processName({ ...process, command: "python train.py" })).toBe("python train.py");
    expect(processName(process)).toBe("python");
    expect(processName({ ...process, name: null, hidden: true })).toBe("hidden from the agent");
  });
});
