import { describe, expect, it } from "vitest";
import { type GpuFigures, Fleet } from "../../src/state/fleet";
import { countUsed, totals } from "../../src/state/totals";
import { event, gpu, node } from "../builders";

function known(): Fleet {
  const fleet = new Fleet();
  fleet.apply("fleet", event({ nodes: [node(1), node(2)], figures: [[1, 990, 50, 40, [[96, 71_026, 65, 365]]], [2, 991, null, null, [[0, 0, 30, 60]]]] }));
  return fleet;
}

describe("totals", () => {
  it("count a GPU with two idle users once", () => {
    const fleet = new Fleet();
    const nodes = [node(1, [gpu(0, "held", ["mei", "omar"]), gpu(1, "busy", ["mei"]), gpu(2, "free"), gpu(3, "broken", ["mei"])])];
    fleet.apply("fleet", event({ nodes, figures: [[1, 990, null, null, []]] }));
    expect(countUsed(fleet)).toEqual({ gpus: 2, idle: 1 });
  });

  it("count the GPUs with known power, and leave out silent nodes", () => {
    const fleet = known();
    const silent = { ...node(3), silent: true };
    fleet.apply("change", event({ nodes: [silent], figures: [[3, 100, null, null, [[0, 0, 30, 700]]]] }));
    expect(totals(fleet)).toMatchObject({ watts: 425, gpusWithPower: 2, gpusWithoutPower: 0, newest: 991 });
  });

  it("count busy GPUs by load, skipping the rows of instances", () => {
    const divided = gpu(0, "free");
    divided.instances = [{ uuid: "MIG-0", profile: null, memory_total_mebibytes: null, nominal_gigabytes: null, verdict: divided.verdict }];
    const fleet = new Fleet();
    const rows: GpuFigures[] = [[99, 0, 30, 60], [99, 0, 30, 60], [100, 0, 30, 60], [null, 0, 30, null]];
    fleet.apply("fleet", event({ nodes: [node(1, [divided, gpu(1, "busy"), gpu(2, "busy")])], figures: [[1, 990, null, null, rows]] }));
    expect(totals(fleet)).toMatchObject({ free: 1, loads: [1, 0, 0, 0, 1], gpusWithoutPower: 1 });
  });
});
