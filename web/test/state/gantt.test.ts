import { expect, it } from "vitest";
import type { Job, Sums } from "../../src/feed/types";
import { barOf, barStyle, newestFirst } from "../../src/state/gantt";

function sums(gpu: number, busy = gpu, idle = 0): Sums {
  return { gpu_seconds: gpu, measured_seconds: gpu, busy_seconds: busy, idle_seconds: idle, energy_joules: 0 };
}

function job(id: string, start: number, end: number | null, fields: Partial<Job> = {}): Job {
  return { id, user: "mei", command: "python train.py", start, end, gpus: 1, sums: sums(3600), certain: true, places: ["gpu01:0"], advice: [], parts: [], ...fields };
}

it("a bar is clipped to the span and knows that it is", () => {
  const span = { start: 100, end: 200 };
  expect(barOf(50, 150, span)).toEqual({ left: 0, width: 50, earlier: true, later: false });
  expect(barOf(150, null, span)).toEqual({ left: 50, width: 50, earlier: false, later: true });
});

it("running jobs come first, then the most recent", () => {
  const jobs = [job("old", 1, 2), job("new", 5, 6), job("running", 0, null)];
  expect(newestFirst(jobs).map(({ id }) => id)).toEqual(["running", "new", "old"]);
});

it("a job that was mostly idle looks held", () => {
  expect([barStyle(sums(100, 10, 60)).state, barStyle(sums(100, 10, 40))]).toEqual(["held", { state: "busy", busyPercent: 10 }]);
});
