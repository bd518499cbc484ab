import { expect, test } from "vitest";
import type { State } from "../../src/feed/state";
import type { GpuPayload } from "../../src/feed/types";
import { type Gpu, Fleet } from "../../src/state/fleet";
import { freeByNode } from "../../src/state/freeGpus";

const verdict = { since: 10, reason: null, was: null, users: null, idle_since: null, notes: [] };
const FLEET = fleetOf({ a1: [gpu(0, "busy", 80), gpu(1, "free", 80)], a2: [gpu(0, "free", 40), gpu(1, "free", 40)], a10: [gpu(3, "free", 40)] });

function gpu(index: number, state: State, mebibytes: number | null): GpuPayload {
  return { uuid: `GPU-${index}`, index, name: "NVIDIA H100", memory_total_mebibytes: mebibytes, verdict: { ...verdict, state, since: 10 + index }, instances: [] };
}

function fleetOf(nodes: Record<string, GpuPayload[]>): Fleet {
  const fleet = new Fleet();
  const infos = Object.entries(nodes).map(([name, gpus], number) => ({
    number, node_id: name, name, silent: false, via: null, trouble: null, warnings: 0, labels: {}, driver_version: null, gpus,
  }));
  fleet.apply("fleet", {
    taken_at: 100,
    summary: { free: 0, leased: 0, busy: 0, held: 0, ghost: 0, broken: 0, unknown: 0, gpus: 0, nodes: 0, nodes_reporting: 0 },
    nodes: infos,
    removed: [],
    figures: infos.map(({ number, gpus }) => [number, 99, null, null, gpus.map(() => [0, 0, 30, 60])]),
  });
  return fleet;
}

test("free GPUs are grouped by node, the largest first, then the most", () => {
  const all = (): boolean => true;
  expect(freeByNode(FLEET, all).map(({ node, gpus }) => [node.info.name, gpus.length])).toEqual([["a1", 1], ["a2", 2], ["a10", 1]]);
  expect(freeByNode(FLEET, all).map(({ mebibytes, since }) => [mebibytes, since])).toEqual([[80, 11], [40, 11], [40, 13]]);
  expect(freeByNode(FLEET, (one: Gpu) => one.node.info.name === "a10")).toHaveLength(1);
});

test("the memory is unknown if that of one GPU is", () => {
  expect(freeByNode(fleetOf({ b: [gpu(0, "free", null), gpu(1, "free", 8)] }), () => true)[0]?.mebibytes).toBeNull();
});
