import { describe, expect, it } from "vitest";
import type { GpuPayload } from "../../src/feed/types";
import { Fleet } from "../../src/state/fleet";
import { freeByModel, idleUsers, tilePages, wallProblems } from "../../src/state/wall";
import { event, gpu, node } from "../builders";

function fleetOf(nodes: number, gpus: () => GpuPayload[]): Fleet {
  const fleet = new Fleet();
  const infos = Array.from({ length: nodes }, (_, at) => ({ ...node(at, gpus()), name: `gpu${at}`, labels: { rack: `r${Math.floor(at / 16)}` } }));
  fleet.apply("fleet", event({ nodes: infos, figures: infos.map(({ number }) => [number, 990, null, null, [[95, 0, 30, 60], [0, 0, 30, 60]]]) }));
  return fleet;
}

describe("the wall", () => {
  const twoGpus = (): GpuPayload[] => [gpu(0, "busy", ["mei"]), gpu(1)];

  it("has a tile per node of a small fleet, and per rack of a large one", () => {
    const few = tilePages(fleetOf(3, twoGpus));
    expect(few[0]?.[0]).toEqual({ name: "gpu0", free: 1, isSilent: false, parts: [{ state: "busy", load: 5, count: 1 }, { state: "free", load: 0, count: 1 }] });
    const many = tilePages(fleetOf(2000, twoGpus));
    expect(many.map((tiles) => tiles.length)).toEqual([63, 62]);
    expect(many[0]?.[0]).toMatchObject({ name: "r0", free: 16, parts: [{ state: "free", count: 16 }, { state: "busy", count: 16 }] });
  });

  it("counts free GPUs by model, idle ones by user, and lists what is broken", () => {
    const held = { ...gpu(0, "held", ["mei"]), verdict: { ...gpu(0, "held", ["mei"]).verdict, idle_since: 400 } };
    const fleet = fleetOf(2, () => [held, gpu(1, "broken")]);
    expect(freeByModel(fleet)).toEqual([{ model: "H100 80GB HBM3", free: 0, gpus: 4 }]);
    expect(idleUsers(fleet)).toEqual([{ user: "mei", gpus: 2, since: 400 }]);
    expect(wallProblems(fleet)[0]).toEqual({ state: "broken", what: "gpu0 GPU 1 broken", since: 1000 });
  });
});
