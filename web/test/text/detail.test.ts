import { expect, it } from "vitest";
import type { Host, JudgedGpu, NodeView, Process } from "../../src/feed/types";
import { unreadableGpus } from "../../src/state/processes";
import { formatRanges, nodeFacts, nodeWarnings, processNote, processScope, usersOf } from "../../src/text/detail";
import { gpuFacts } from "../../src/text/gpu";

const HOST: Host = { addresses: [], kernel: null, driver_version: null, cuda_version: null, booted_at: null, cpu_count: null, cpu_percent: null, load_1_minute: null, load_5_minutes: null, load_15_minutes: null, memory_used_bytes: null, memory_total_bytes: null };
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

function process(pid: number, fields: Partial<Process> = {}): Process {
  return {
    pid,
    pid_is_made: false,
    kind: "compute",
    gpu_memory_bytes: GIB,
    user: "mei",
    uid: null,
    group: null,
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

it("unreadable processes do not look like none", () => {
  expect(unreadableGpus(node([gpu(0), gpu(1, { processes: null })]))).toEqual([1]);
  expect(processNote([], [1])).toBe("not readable on GPU 1");
  expect(processNote([], [])).toBe("none");
});

it("consecutive GPUs are written as a range", () => {
  expect(formatRanges([7, 0, 1, 2])).toBe("0–2, 7");
});

it("users are listed once, without unknown ones", () => {
  expect(usersOf([process(1), process(2), process(3, { user: null }), process(4, { user: "omar" })])).toEqual(["mei", "omar"]);
  expect(processScope(process(1))).toBe("—");
  expect(processScope(process(1, { slurm_job: "42", container: "lab" }))).toBe("Slurm job 42, container lab");
});

it("an unknown fact is a dash", () => {
  const facts = nodeFacts(node([]), null, 5000);
  expect(facts.find(({ name }) => name === "Driver")?.value).toBe("—");
  expect(gpuFacts(gpu(0)).filter(({ name }) => name !== "UUID").map(({ value }) => value)).toEqual(Array(19).fill("—"));
});

it("the warnings about a node are sentences", () => {
  const runs = [
    { name: "nvidia", outcome: "failed" as const, seconds: 0, detail: "driver not answering", fault: null },
    { name: "nvgpu", outcome: "ok" as const, seconds: 0, detail: "cannot tell memory", fault: null },
    { name: "amd", outcome: "absent" as const, seconds: 0, detail: "no driver", fault: null },
  ];
  const odd = node([], { trouble: "no route to host", clock_skew_seconds: -300, missing_reports: 2, runs });
  expect(nodeWarnings(odd)).toEqual(["no route to host", "clock is 5 m ahead", "2 reports missing", "nvidia: driver not answering", "read through nvgpu, which cannot tell memory"]);
  expect(nodeWarnings(node([]))).toEqual([]);
});
