import { expect, it } from "vitest";
import type { Reading } from "../../src/feed/state";
import type { Figure, Host, JudgedGpu, NodeView, Series } from "../../src/feed/types";
import { gpuPlots } from "../../src/state/plots";

const HOST: Host = { addresses: [], kernel: null, driver_version: null, cuda_version: null, booted_at: null, cpu_count: null, cpu_percent: null, load_1_minute: null, load_5_minutes: null, load_15_minutes: null, memory_used_bytes: null, memory_total_bytes: null };
const SPAN = { start: 1000, end: 1030 };
const GIB = 1024 ** 3;

/** A GPU that tells what is given here, and nothing else. */
function gpu(index: number, fields: Partial<JudgedGpu> = {}): JudgedGpu {
  const silent = new Proxy({} as JudgedGpu, { get: () => null });
  const told = {
    uuid: `GPU-${index}`,
    uuid_is_made: false,
    index,
    memory_shared: false,
    asleep: false,
    unread: {},
    instances: [],
    processes: [],
    verdict: { state: "free", reason: "not in use", since: 0, notes: [] },
    ...fields,
  };
  return Object.setPrototypeOf(told, silent) as JudgedGpu;
}

function node(gpus: JudgedGpu[], fields: Partial<NodeView> = {}): NodeView {
  return {
    node_id: "id",
    name: "gpu01",
    taken_at: 0,
    age_seconds: 1,
    silent: false,
    via: "push",
    trouble: null,
    clock_skew_seconds: null,
    missing_reports: 0,
    labels: {},
    interval_seconds: 1,
    sequence: 0,
    boot_id: null,
    agent_version: null,
    host: HOST,
    runs: [],
    gpus,
    ...fields,
  };
}

function told(...figures: Reading[]): Figure {
  return { minimum: figures, mean: figures, maximum: figures };
}

const SERIES: Series = {
  start: 1000,
  grain_seconds: 10,
  node: { cpu_percent: told(10, null, 30), memory_percent: told(null, null, null) },
  gpus: {
    "GPU-0": { busy_percent: told(0, null, 90), memory_used_bytes: told(2 ** 30, 2 ** 30, 2 ** 31), power_watts: told(70, 80, 350), temperature_celsius: told(30, 31, 32) },
    "GPU-1": { busy_percent: told(5, 6, 7), memory_used_bytes: told(0, 0, 0), power_watts: told(null, null, null), temperature_celsius: told(90, 91, 92) },
  },
};

it("the selected GPU is the main line", () => {
  const { busy } = gpuPlots(node([gpu(0), gpu(1, { busy_percent: 8 })]), SERIES, SPAN, "GPU-1");
  expect(busy.lines.lines.map(({ name, isMain }) => [name, isMain])).toEqual([["GPU 0", false], ["GPU 1", true]]);
  expect([busy.now, busy.lines.from, busy.lines.to, busy.lines.max]).toEqual([8, 1000, 1030, 100]);
});

it("a plot ends at the limit of the GPU unless a value is above it", () => {
  const { power, memory, temperature } = gpuPlots(node([gpu(0, { power_limit_watts: 400, memory_total_bytes: 8 * GIB }), gpu(1)]), SERIES, SPAN, "GPU-0");
  expect([power.lines.max, memory.lines.max, temperature.lines.max]).toEqual([400, 8, 100]);
  expect(memory.figures).toEqual([1, 1, 2]);
});

it("the current value comes from the node, and is unknown if it is silent", () => {
  const gpus = [gpu(0, { busy_percent: 50, memory_used_bytes: 3 * GIB })];
  const said = [false, true].map((silent) => gpuPlots(node(gpus, { silent }), SERIES, SPAN, "GPU-0"));
  expect(said.map(({ busy, memory, power }) => [busy.now, memory.now, power.now])).toEqual([[50, 3, null], [null, null, null]]);
});

it("a GPU without history has no lines", () => {
  const { busy } = gpuPlots(node([gpu(7)]), SERIES, SPAN, "GPU-7");
  expect([busy.lines.lines, busy.lines.low, busy.now]).toEqual([[], [], null]);
});

it("the main line has a band from minimum to maximum", () => {
  const told = { minimum: [0, 2 ** 30], mean: [2 ** 30, 2 ** 31], maximum: [2 ** 31, 2 ** 32] };
  const { memory } = gpuPlots(node([gpu(0)]), { start: 1000, grain_seconds: 10, node: {}, gpus: { "GPU-0": { memory_used_bytes: told } } }, SPAN, "GPU-0");
  expect([memory.lines.low, memory.figures, memory.lines.high]).toEqual([[0, 1], [1, 2], [2, 4]]);
});
