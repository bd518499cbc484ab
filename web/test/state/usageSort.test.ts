import { expect, it } from "vitest";
import { type UsageRow, ZERO_SUMS } from "../../src/state/usage";
import { nextSort, sortUsage, weekChange } from "../../src/state/usageSort";

function row(name: string, hours: number, idleGpus = 0, idleSeconds = 0, busy = hours): UsageRow {
  const person = { user: name, seen: true, gpus: idleGpus + 1, nodes: [], memory_bytes: null, busy_percent: null, idle_gpus: idleGpus, idle_seconds: idleSeconds, since: null };
  return { name, person, sums: { ...ZERO_SUMS, gpu_seconds: hours, measured_seconds: hours, busy_seconds: busy }, daily: [] };
}

it("idle holders come first, the longest idle among equals", () => {
  const rows = [row("ann", 9), row("bob", 5, 2, 60), row("cem", 1, 2, 600), row("dan", 0, 1, 9e6)];
  expect(sortUsage(rows, { key: "held", descending: true }).map(({ name }) => name)).toEqual(["cem", "bob", "dan", "ann"]);
  expect(sortUsage(rows, { key: "name", descending: false })[0]?.name).toBe("ann");
});

it("what is not known comes last either way", () => {
  const rows = [row("none", 0), row("low", 10, 0, 0, 1), row("high", 10)];
  for (const descending of [true, false]) expect(sortUsage(rows, { key: "busy", descending }).at(-1)?.name).toBe("none");
});

it("a second click turns the order around", () => {
  expect(nextSort({ key: "hours", descending: true }, "hours")).toEqual({ key: "hours", descending: false });
  expect(nextSort({ key: "hours", descending: true }, "name")).toEqual({ key: "name", descending: false });
});

it("the trend is the last week against the one before", () => {
  expect(weekChange({ daily: [...Array<number>(7).fill(4), ...Array<number>(7).fill(5)] })).toBe(0.25);
  expect(weekChange({ daily: [1, 0, 3] })).toBeNull();
});
