import { expect, it } from "vitest";
import type { Job, Sums } from "../../src/feed/types";
import { jobFacts, jobName, jobTimes, nodesText, personFacts, usageParts } from "../../src/text/job";

const GPU = { uuid: "GPU-0", node_id: "a", node: "gpu01", vendor: "nvidia" as const, model: null, memory_total_bytes: null, parent: null };

function sums(gpu: number, busy = gpu, idle = 0): Sums {
  return { gpu_seconds: gpu, measured_seconds: gpu, busy_seconds: busy, idle_seconds: idle, energy_joules: 0 };
}

function job(id: string, start: number, end: number | null, fields: Partial<Job> = {}): Job {
  return { id, user: "mei", command: "python train.py", start, end, gpus: 1, sums: sums(3600), certain: true, places: ["gpu01:0"], advice: [], parts: [], ...fields };
}

it("a job is named by its command, or else by its process", () => {
  const holder = { pid: 1, user: "mei", group: null, name: "python", command: null, container: null, slurm_job: null, started_at: null, memory_bytes: null };
  const occupancy = { holder, start: 0, end: null, certain: true, sums: sums(1), mean_memory_bytes: null, peak_memory_bytes: 3 * 1024 ** 3 };
  const hidden = job("hidden", 0, null, { command: null, parts: [{ gpu: { ...GPU, index: 0 }, occupancy }] });
  expect([jobName(job("a", 0, 1)), jobName(hidden), jobName(job("b", 0, 1, { command: null }))]).toEqual(["python train.py", "python", "unnamed process"]);
  expect(jobFacts(hidden, 7200).find(({ name }) => name === "Peak memory")?.value).toBe("3 GiB");
});

it("the parts of the GPU-hours add up", () => {
  const parts = usageParts(sums(36_000, 18_000, 7200));
  expect(parts.map(({ kind, seconds }) => [kind, seconds])).toEqual([["busy", 18_000], ["unused", 10_800], ["idle", 7200]]);
  expect(parts[0]?.text).toBe("5.0 h busy, 50 %");
  expect(usageParts(sums(10, 4, 10)).map(({ kind, seconds }) => [kind, seconds])).toEqual([["busy", 4], ["idle", 6]]);
});

it("running jobs are counted", () => {
  const said = [[null, null], [null, 9], [9, 9]].map((ends) => personFacts(sums(1), ends.map((end, at) => job(`${at}`, 0, end)), null).at(-1)?.rest);
  expect(said).toEqual(["2 running", "1 running", "0 running"]);
});

it("a running job says so", () => {
  expect(jobTimes(0, 3600, 7200)).toMatch(/, 1 h$/);
  expect([nodesText(["a:0", "a:1"]), nodesText(["a:0", "b:0", "c:7"])]).toEqual(["a", "a and 2 other nodes"]);
  expect(jobTimes(0, null, 7200)).toMatch(/, running for 2 h$/);
});
