import { expect, it } from "vitest";
import type { Job, Sums, Usages } from "../src/feed/types";
import { barOf, barStyle, newestFirst } from "../src/state/gantt";
import type { Person } from "../src/state/people.svelte";
import { busyShare, usageRows } from "../src/state/usage";
import { jobFacts, jobName, personFacts, nodesText, usageParts, usedText, jobTimes } from "../src/text/job";
import { stateTotals } from "../src/text/usage";

function sums(gpu: number, busy = gpu, idle = 0): Sums {
  return { gpu_seconds: gpu, measured_seconds: gpu, busy_seconds: busy, idle_seconds: idle, energy_joules: 0 };
}

function person(user: string, gpus: number): Person {
  return { user, seen: true, gpus, nodes: [], memory_bytes: null, busy_percent: null, idle_gpus: 0, idle_seconds: null, since: null };
}

function usages(rows: Record<string, number>, daily: number[] = []): Usages {
  const told = Object.entries(rows).map(([name, seconds]) => ({ name, sums: sums(seconds), daily }));
  return { start: 0, end: 1, by: "user", rows: told, total: sums(0), by_state: { busy: 7200, free: 3600, held: 0 } };
}

function job(id: string, start: number, end: number | null, fields: Partial<Job> = {}): Job {
  return { id, user: "mei", command: "python train.py", start, end, gpus: 1, sums: sums(3600), certain: true, places: ["gpu01:0"], advice: [], parts: [], ...fields };
}

const GPU = { uuid: "GPU-0", node_id: "a", node: "gpu01", model: null, memory_total_bytes: null, parent: null };

it("who has something now and who had something then are one list, the most hours first", () => {
  const rows = usageRows([person("mei", 2), person("new", 1)], usages({ mei: 10, gone: 20 }), usages({ mei: 5 }, [1, 2]));
  expect(rows.map(({ name, person: now, sums: { gpu_seconds }, daily }) => [name, now?.gpus ?? null, gpu_seconds, daily])).toEqual([
    ["gone", null, 20, []],
    ["mei", 2, 10, [1, 2]],
    ["new", 1, 0, []],
  ]);
});

it("where no history is kept, those who have something now are listed", () => {
  expect(usageRows([person("mei", 1), person("ada", 3)], null, null).map(({ name }) => name)).toEqual(["ada", "mei"]);
});

it("the share of work is of what was measured, and of nothing there is none", () => {
  expect([busyShare(sums(10, 4)), busyShare(sums(0))]).toEqual([0.4, null]);
  expect([usedText(sums(10, 4)), usedText(sums(0))]).toEqual(["40 % used", "–"]);
});

it("the whole time is told by state, without what there was none of", () => {
  expect(stateTotals(usages({})).map(({ words, share }) => [words, share])).toEqual([["2.0 GPU-hours busy", "67 %"], ["1.0 free", "33 %"]]);
});

it("a bar lies within what is shown, and says when it goes beyond it", () => {
  const span = { start: 100, end: 200 };
  expect(barOf(50, 150, span)).toEqual({ left: 0, width: 50, earlier: true, later: false });
  expect(barOf(150, null, span)).toEqual({ left: 50, width: 50, earlier: false, later: true });
});

it("jobs that still run come first, then the newest", () => {
  const jobs = [job("old", 1, 2), job("new", 5, 6), job("running", 0, null)];
  expect(newestFirst(jobs).map(({ id }) => id)).toEqual(["running", "new", "old"]);
});

it("a job that mostly did nothing looks held", () => {
  expect([barStyle(sums(100, 10, 60)).state, barStyle(sums(100, 10, 40))]).toEqual(["held", { state: "busy", busyPercent: 10 }]);
});

it("a job is called by its command, or by what else is known of it", () => {
  const holder = { pid: 1, user: "mei", name: "python", command: null, container: null, slurm_job: null };
  const occupancy = { holder, start: 0, end: null, certain: true, sums: sums(1), mean_memory_bytes: null, peak_memory_bytes: 3 * 1024 ** 3 };
  const hidden = job("hidden", 0, null, { command: null, parts: [{ gpu: { ...GPU, index: 0 }, occupancy }] });
  expect([jobName(job("a", 0, 1)), jobName(hidden), jobName(job("b", 0, 1, { command: null }))]).toEqual(["python train.py", "python", "a process that is not named"]);
  expect(jobFacts(hidden, 7200).find(({ name }) => name === "Most memory")?.value).toBe("3 GiB");
});

it("what was made of the hours adds up to them", () => {
  const parts = usageParts(sums(36_000, 18_000, 7200));
  expect(parts.map(({ kind, seconds }) => [kind, seconds])).toEqual([["worked", 18_000], ["slack", 10_800], ["idle", 7200]]);
  expect(parts[0]?.words).toBe("5.0 h at work, 50 %");
  expect(usageParts(sums(10, 4, 10)).map(({ kind, seconds }) => [kind, seconds])).toEqual([["worked", 4], ["idle", 6]]);
});

it("jobs that still run are counted in good English", () => {
  const said = [[null, null], [null, 9], [9, 9]].map((ends) => personFacts(sums(1), ends.map((end, at) => job(`${at}`, 0, end)), null).at(-1)?.rest);
  expect(said).toEqual(["2 still run", "1 still runs", "0 still run"]);
});

it("a job that still runs says so", () => {
  expect(jobTimes(0, 3600, 7200)).toMatch(/, for 1 h 00$/);
  expect([nodesText(["a:0", "a:1"]), nodesText(["a:0", "b:0", "c:7"])]).toEqual(["a", "a and 2 other nodes"]);
  expect(jobTimes(0, null, 7200)).toMatch(/, still runs, 2 h 00$/);
});
