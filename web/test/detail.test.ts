import { expect, it } from "vitest";
import type { Reading } from "../src/feed/state";
import type { Figure, Host, JudgedGpu, NodeView, Process, Series } from "../src/feed/types";
import { gpuPlots, nodePlots } from "../src/state/plots";
import { processRows, unreadable } from "../src/state/processes";
import { processScope, nodeFacts, peopleOn, processNote, formatRanges, nodeWarnings } from "../src/text/detail";
import { gpuFacts } from "../src/text/gpu";
import { readingText, plotAria } from "../src/text/plot";

const GIB = 1024 ** 3;

function process(pid: number, fields: Partial<Process> = {}): Process {
  return {
    pid,
    pid_is_made: false,
    kind: "compute",
    gpu_memory_bytes: GIB,
    user: "mei",
    name: "python",
    command: null,
    started_at: 1000,
    busy_percent: 50,
    container: null,
    slurm_job: null,
    condition: null,
    hidden: false,
    cpu_percent: null,
    host_memory_bytes: null,
    pod: null,
    ...fields,
  };
}

const HOST: Host = { addresses: [], kernel: null, driver_version: null, cuda_version: null, booted_at: null, cpu_count: null, cpu_percent: null, load_1_minute: null, memory_used_bytes: null, memory_total_bytes: null };

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
    verdict: { state: "free", reason: "nobody is on it", since: 0, notes: [] },
    ...fields,
  };
  return Object.setPrototypeOf(told, silent) as JudgedGpu;
}

function node(gpus: JudgedGpu[], fields: Partial<NodeView> = {}): NodeView {
  return {
    node_id: "id",
    name: "gpu01",
    age_seconds: 1,
    silent: false,
    via: "push",
    trouble: null,
    clock_skew_seconds: null,
    missing_reports: 0,
    labels: {},
    interval_seconds: 1,
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
    "GPU-0": { busy_percent: told(0, null, 90), memory_used_mebibytes: told(1024, 1024, 2048), power_watts: told(70, 80, 350), temperature_celsius: told(30, 31, 32) },
    "GPU-1": { busy_percent: told(5, 6, 7), memory_used_mebibytes: told(0, 0, 0), power_watts: told(null, null, null), temperature_celsius: told(90, 91, 92) },
  },
};
const SPAN = { start: 1000, end: 1030 };

it("the chosen GPU is in ink, and its siblings are not", () => {
  const { busy } = gpuPlots(node([gpu(0), gpu(1, { busy_percent: 8 })]), SERIES, SPAN, "GPU-1");
  expect(busy.drawing.lines.map(({ name, ink }) => [name, ink])).toEqual([["GPU 0", false], ["GPU 1", true]]);
  expect([busy.now, busy.drawing.from, busy.drawing.to, busy.drawing.most]).toEqual([8, 1000, 1030, 100]);
});

it("a plot goes up to what the card may take, and above it only if it did", () => {
  const { power, memory, temperature } = gpuPlots(node([gpu(0, { power_limit_watts: 400, memory_total_bytes: 8 * GIB }), gpu(1)]), SERIES, SPAN, "GPU-0");
  expect([power.drawing.most, memory.drawing.most, temperature.drawing.most]).toEqual([400, 8, 100]);
  expect(memory.figures).toEqual([1, 1, 2]);
});

it("what a plot says of the moment is what its node tells then, and nothing of one that is silent", () => {
  const gpus = [gpu(0, { busy_percent: 50, memory_used_bytes: 3 * GIB })];
  const said = [false, true].map((silent) => gpuPlots(node(gpus, { silent }), SERIES, SPAN, "GPU-0"));
  expect(said.map(({ busy, memory, power }) => [busy.now, memory.now, power.now])).toEqual([[50, 3, null], [null, null, null]]);
});

it("a GPU that the hub does not know is drawn by nobody", () => {
  const { busy } = gpuPlots(node([gpu(7)]), SERIES, SPAN, "GPU-7");
  expect([busy.drawing.lines, busy.drawing.low, busy.now]).toEqual([[], [], null]);
});

it("the line in ink has around it the least and the most that it stands for", () => {
  const told = { minimum: [0, 1024], mean: [1024, 2048], maximum: [2048, 4096] };
  const { memory } = gpuPlots(node([gpu(0)]), { start: 1000, grain_seconds: 10, node: {}, gpus: { "GPU-0": { memory_used_mebibytes: told } } }, SPAN, "GPU-0");
  expect([memory.drawing.low, memory.figures, memory.drawing.high]).toEqual([[0, 1], [1, 2], [2, 4]]);
});

it("what was never measured of the machine is said so", () => {
  const { cpu, memory } = nodePlots(node([], { host: { ...HOST, cpu_percent: 31 } }), SERIES, SPAN);
  expect(plotAria("CPU", cpu.figures, cpu.now, "%")).toBe("CPU: now 31 %, between 10 % and 30 %");
  expect(plotAria("Host memory", memory.figures, memory.now, "%")).toBe("Host memory: not measured in this time");
});

it("small figures have a place after the point, and unknown ones a dash", () => {
  expect([0, 3.14, 99.6, null, undefined].map((figure) => readingText(figure, "W"))).toEqual(["0 W", "3.1 W", "100 W", "–", "–"]);
});

it("a process on several GPUs is told once, with its memory on all of them", () => {
  const rows = processRows([gpu(0, { processes: [process(1), process(2)] }), gpu(1, { processes: [process(1)] })]);
  expect(rows.map(({ process: { pid }, gpus, memoryBytes }) => [pid, gpus, memoryBytes])).toEqual([[1, [0, 1], 2 * GIB], [2, [0], GIB]]);
});

it("memory that is not known of one GPU is not known of all", () => {
  const [row] = processRows([gpu(0, { processes: [process(1)] }), gpu(1, { processes: [process(1, { gpu_memory_bytes: null })] })]);
  expect(row?.memoryBytes).toBe(null);
});

it("processes whose number nobody told are never taken for one", () => {
  const made = process(9, { pid_is_made: true });
  expect(processRows([gpu(0, { processes: [made] }), gpu(1, { processes: [made] })])).toHaveLength(2);
});

it("processes that cannot be read do not look like none", () => {
  expect(unreadable(node([gpu(0), gpu(1, { processes: null })]))).toEqual([1]);
  expect(processNote([], [1])).toBe("could not be read on GPU 1");
  expect(processNote([], [])).toBe("none");
});

it("GPUs in a row are named by the first and the last", () => {
  expect(formatRanges([7, 0, 1, 2])).toBe("0–2, 7");
});

it("people are named once each, and nobody is made up", () => {
  expect(peopleOn([process(1), process(2), process(3, { user: null }), process(4, { user: "omar" })])).toEqual(["mei", "omar"]);
  expect(processScope(process(1))).toBe("–");
  expect(processScope(process(1, { slurm_job: "42", container: "lab" }))).toBe("Slurm job 42, container lab");
});

it("every fact that is not known is a dash", () => {
  const facts = nodeFacts(node([]), null, 5000);
  expect(facts.find(({ name }) => name === "Driver")?.value).toBe("–");
  expect(gpuFacts(gpu(0)).filter(({ name }) => name !== "UUID").map(({ value }) => value)).toEqual(Array(19).fill("–"));
});

it("why a fact is not known is told with it", () => {
  const fan = gpuFacts(gpu(0, { unread: { fan_percent: "not supported" } })).find(({ name }) => name === "Fan");
  expect([fan?.value, fan?.meaning]).toEqual(["–", "not supported"]);
});

it("what is odd about a node is told in sentences", () => {
  const runs = [
    { name: "nvidia", outcome: "failed" as const, seconds: 0, detail: "driver not answering" },
    { name: "nvgpu", outcome: "ok" as const, seconds: 0, detail: "cannot tell memory" },
    { name: "amd", outcome: "absent" as const, seconds: 0, detail: "no driver" },
  ];
  const odd = node([], { trouble: "no route to host", clock_skew_seconds: -300, missing_reports: 2, runs });
  expect(nodeWarnings(odd)).toEqual(["no route to host", "its clock is 5 m ahead", "2 reports never came", "nvidia: driver not answering", "heard through nvgpu, which cannot tell memory"]);
  expect(nodeWarnings(node([]))).toEqual([]);
});
