import { expect, it } from "vitest";
import type { GpuWhole, NodeWhole } from "../src/feed/node";
import { Fleet } from "../src/state/fleet";
import { eventOf } from "../src/state/past";
import { summary } from "./builders";

const MEBI = 1024 ** 2;

function whole(state: string, fields: Record<string, unknown> = {}): GpuWhole {
  const told = {
    uuid: "GPU-0",
    index: 0,
    name: "NVIDIA L40S",
    memory_total_bytes: 100 * MEBI,
    memory_used_bytes: 40 * MEBI,
    busy_percent: 12.6,
    temperature_celsius: null,
    power_watts: 99.5,
    processes: [{ user: "mei" }, { user: null }, { user: "mei" }, { user: "ada" }],
    instances: [],
    verdict: { state, reason: "because", since: 900, was: null, notes: [{ kind: "shared", words: "shared by 2" }], idle_seconds: null },
    ...fields,
  };
  return told as unknown as GpuWhole;
}

function nodeOf(nodeId: string, gpus: GpuWhole[], fields: Partial<NodeWhole> = {}): NodeWhole {
  const host = { driver_version: "570", cpu_percent: 30.4, memory_used_bytes: 1, memory_total_bytes: 4 };
  return { node_id: nodeId, name: nodeId, silent: false, via: "push", trouble: null, labels: { rack: "a" }, age_seconds: 5, host, gpus, ...fields } as unknown as NodeWhole;
}

function shown(nodes: NodeWhole[], numbers = new Map<string, number>()): Fleet {
  const fleet = new Fleet();
  fleet.apply("fleet", eventOf({ taken_at: 1000, summary: { ...summary(), nodes: nodes.length }, nodes }, numbers));
  return fleet;
}

it("a past moment is shown as the present is: states, people, figures", () => {
  const [gpu] = shown([nodeOf("gpu01", [whole("busy")])]).everyGpu();
  expect(gpu?.brief.verdict).toEqual({ state: "busy", since: 900, reason: null, was: null, users: ["mei", "ada"], idle_since: null, notes: ["shared"] });
  expect(gpu?.figures).toEqual([13, 40, null, 100]);
  expect([gpu?.node.figures.heardAt, gpu?.node.figures.cpuPercent, gpu?.node.figures.memoryPercent]).toEqual([995, 30, 25]);
});

it("how long it had been idle counts back from that moment", () => {
  const verdict = { state: "held", reason: "idle", since: 800, was: null, notes: [], idle_seconds: 150 };
  const [gpu] = shown([nodeOf("gpu01", [whole("held", { verdict })])]).everyGpu();
  expect(gpu?.brief.verdict.idle_since).toBe(850);
});

it("what is broken says why, and processes that could not be read are nobody's", () => {
  const [gpu] = shown([nodeOf("gpu01", [whole("broken", { processes: null })])]).everyGpu();
  expect([gpu?.brief.verdict.reason, gpu?.brief.verdict.users]).toEqual(["because", null]);
});

it("the parts of a GPU have their own states and figures", () => {
  const part = { uuid: "MIG-1", profile: "1g.10gb", processes: [], memory_total_bytes: 10 * MEBI, memory_used_bytes: 2 * MEBI, busy_percent: null, verdict: { state: "free", reason: "", since: 1, was: null, notes: [], idle_seconds: null } };
  const [gpu] = shown([nodeOf("gpu01", [whole("busy", { instances: [part] })])]).everyGpu();
  expect(gpu?.instances.map(({ brief, figures }) => [brief.profile, brief.verdict.state, figures])).toEqual([["1g.10gb", "free", [null, 2, null, null]]]);
});

it("nodes that are known now keep their numbers, and those that are gone get others", () => {
  const fleet = shown([nodeOf("gone", []), nodeOf("gpu01", []), nodeOf("gone too", [])], new Map([["gpu01", 7]]));
  expect([...fleet.nodes].map(([number, { brief }]) => [number, brief.name])).toEqual([[-1, "gone"], [7, "gpu01"], [-2, "gone too"]]);
});
