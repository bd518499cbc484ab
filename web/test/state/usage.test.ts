import { expect, it } from "vitest";
import type { Person, Sums, Usages } from "../../src/feed/types";
import { busyShare, usageRows } from "../../src/state/usage";
import { usedText } from "../../src/text/job";

function sums(gpu: number, busy = gpu, idle = 0): Sums {
  return { gpu_seconds: gpu, measured_seconds: gpu, busy_seconds: busy, idle_seconds: idle, energy_joules: 0 };
}

function person(user: string, gpus: number): Person {
  return { user, seen: true, gpus, nodes: [], memory_bytes: null, busy_percent: null, idle_gpus: 0, idle_seconds: null, since: null };
}

function usages(rows: Record<string, number>, daily: number[] = []): Usages {
  const usages = Object.entries(rows).map(([name, seconds]) => ({ name, sums: sums(seconds), daily, node_id: null }));
  return { start: 0, end: 1, history_begins: null, unwritten: null, by: "user", rows: usages, total: sums(0), by_state: { busy: 7200, free: 3600, held: 0 } };
}

it("current and past users are one list, the most hours first", () => {
  const rows = usageRows([person("mei", 2), person("new", 1)], usages({ mei: 10, gone: 20 }), usages({ mei: 5 }, [1, 2]));
  expect(rows.map(({ name, person: now, sums: { gpu_seconds }, daily }) => [name, now?.gpus ?? null, gpu_seconds, daily])).toEqual([
    ["gone", null, 20, []],
    ["mei", 2, 10, [1, 2]],
    ["new", 1, 0, []],
  ]);
});

it("without history the current users are listed", () => {
  expect(usageRows([person("mei", 1), person("ada", 3)], null, null).map(({ name }) => name)).toEqual(["ada", "mei"]);
});

it("the busy share is of the measured time, and unknown without any", () => {
  expect([busyShare(sums(10, 4)), busyShare(sums(0))]).toEqual([0.4, null]);
  expect([usedText(sums(10, 4)), usedText(sums(0))]).toEqual(["40 % busy", "—"]);
});
