import { describe, expect, it } from "vitest";
import type { NodeFiguresDiff } from "../../src/feed/types";
import { Fleet } from "../../src/state/fleet";
import { event, gpu, node } from "../builders";

function known(): Fleet {
  const fleet = new Fleet();
  fleet.apply("fleet", event({ nodes: [node(1), node(2)], figures: [[1, 990, 50, 40, [[96, 71_026, 65, 365]]], [2, 991, null, null, [[0, 0, 30, 60]]]] }));
  return fleet;
}

function figuresOf(fleet: Fleet, number: number): unknown {
  return fleet.nodes.get(number)?.figures;
}

describe("applying events", () => {
  it("keeps unchanged figures", () => {
    const fleet = known();
    fleet.apply("change", event({ figures: [[1, 992, "=", 41, [["=", 70_000, "=", null]]]] }));
    expect(figuresOf(fleet, 1)).toEqual({ reportedAt: 992, cpuPercent: 50, memoryPercent: 41, rows: [[96, 70_000, 65, null]] });
  });

  it("keeps unchanged rows", () => {
    const fleet = known();
    fleet.apply("change", event({ figures: [[1, 992, "=", "=", ["="]]] }));
    expect(figuresOf(fleet, 1)).toMatchObject({ rows: [[96, 71_026, 65, 365]] });
  });

  it("removes nodes, and all of them with a full event", () => {
    const fleet = known();
    fleet.apply("change", event({ removed: [2] }));
    expect([...fleet.nodes.keys()]).toEqual([1]);
    fleet.apply("fleet", event({ nodes: [node(7)], figures: [[7, 1, null, null, [[null, null, null, null]]]] }));
    expect([...fleet.nodes.keys()]).toEqual([7]);
  });

  it("replaces a node object only if it changed", () => {
    const fleet = known();
    const [first, second] = [fleet.nodes.get(1), fleet.nodes.get(2)];
    fleet.apply("change", event({ figures: [[1, 992, "=", "=", ["="]]] }));
    expect(fleet.nodes.get(1)).not.toBe(first);
    expect(fleet.nodes.get(2)).toBe(second);
  });

  it("changes the roster with nodes, names, labels and GPUs, but not with figures and states", () => {
    const fleet = known();
    const changed = (parts: Parameters<typeof event>[0]): boolean => {
      const before = fleet.roster;
      fleet.apply("change", event(parts));
      return fleet.roster !== before;
    };
    const figures = (number: number): NodeFiguresDiff[] => [[number, 992, null, null, [[1, 2, 3, 4]]]];
    expect(changed({ figures: figures(1) })).toBe(false);
    expect(changed({ nodes: [node(1, [gpu(0, "busy")])], figures: figures(1) })).toBe(false);
    expect(changed({ nodes: [{ ...node(1), labels: { rack: "r1" } }], figures: figures(1) })).toBe(true);
    expect(changed({ nodes: [node(2, [gpu(0), gpu(1)])], figures: figures(2) })).toBe(true);
    expect(changed({ nodes: [node(3)], figures: figures(3) })).toBe(true);
    expect(changed({ removed: [3] })).toBe(true);
    expect(changed({ removed: [3] })).toBe(false);
  });

  it("assigns every GPU and instance its own figures", () => {
    const fleet = new Fleet();
    const divided = gpu(0, "busy");
    divided.instances = [{ uuid: "MIG-0", profile: "1g.10gb", memory_total_mebibytes: 9984, nominal_gigabytes: null, verdict: divided.verdict }];
    const rows: [number, number, number, number][] = [[1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]];
    fleet.apply("fleet", event({ nodes: [node(1, [divided, gpu(1)])], figures: [[1, 990, null, null, rows]] }));
    const [first, second] = fleet.nodes.get(1)!.gpus;
    expect([first?.figures[0], first?.instances[0]?.figures[0], second?.figures[0]]).toEqual([1, 2, 3]);
  });
});
