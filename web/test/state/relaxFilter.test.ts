import { expect, test } from "vitest";
import type { State } from "../../src/feed/state";
import type { GpuPayload } from "../../src/feed/types";
import type { Term } from "../../src/state/filterMatch";
import { Fleet } from "../../src/state/fleet";
import { bestTermToDrop } from "../../src/state/relaxFilter";

const verdict = { since: 10, reason: null, was: null, users: null, idle_since: null, notes: [] };
const FLEET = fleetOf({ a1: [gpu(0, "busy", 80), gpu(1, "free", 80)], a2: [gpu(0, "free", 40), gpu(1, "free", 40)], a10: [gpu(3, "free", 40)] });
const word = (key: Term["key"], value: string): Term => ({ key, op: ":", values: [value], bound: null, negated: false });

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

test("the term whose removal leaves the most matches is suggested", () => {
  const terms = [word("state", "held"), word("node", "a2")];
  expect(bestTermToDrop(FLEET.everyGpu(), ["held", "node:a2"], terms)).toEqual({ term: "held", matches: 2 });
  expect(bestTermToDrop(FLEET.everyGpu(), ["held", "node:b"], [word("state", "held"), word("node", "b")])).toBeNull();
});

test("nothing is suggested while text and parsed terms differ", () => {
  expect(bestTermToDrop(FLEET.everyGpu(), ["held"], [])).toBeNull();
});
