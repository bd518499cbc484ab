import { expect, it } from "vitest";
import type { Sums, Usages } from "../../src/feed/types";
import { stateTotals } from "../../src/text/usage";

function sums(gpu: number, busy = gpu, idle = 0): Sums {
  return { gpu_seconds: gpu, measured_seconds: gpu, busy_seconds: busy, idle_seconds: idle, energy_joules: 0 };
}

function usages(rows: Record<string, number>, daily: number[] = []): Usages {
  const usages = Object.entries(rows).map(([name, seconds]) => ({ name, sums: sums(seconds), daily, node_id: null }));
  return { start: 0, end: 1, history_begins: null, unwritten: null, by: "user", rows: usages, total: sums(0), by_state: { busy: 7200, free: 3600, held: 0 } };
}

it("the total time is split by state, without empty states", () => {
  expect(stateTotals(usages({})).map(({ text, share }) => [text, share])).toEqual([["2.0 GPU-hours busy", "67 %"], ["1.0 free", "33 %"]]);
});
