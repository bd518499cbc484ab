import { describe, expect, it } from "vitest";
import type { Reading } from "../../src/feed/state";
import type { StripRun } from "../../src/feed/types";
import type { NodeRecords } from "../../src/state/nodeHistory.svelte";
import { sparkline } from "../../src/state/sparkline";

function hour(busy: Reading[], runs: StripRun[] = []): NodeRecords {
  const span = { start: 1000, end: 1000 + 10 * busy.length };
  const gpu = { uuid: "GPU-a", node_id: "id", node: "gpu01", index: 0, vendor: "nvidia" as const, model: null, memory_total_bytes: null, parent: null };
  return {
    span,
    series: { start: 1000, grain_seconds: 10, node: {}, gpus: { "GPU-a": { busy_percent: { minimum: [], mean: busy, maximum: [] } } } },
    strips: { ...span, history_begins: null, columns: 240, rows: [{ gpu, runs }] },
  };
}

function run(start: number, end: number, state: StripRun["state"]): StripRun {
  return { start, end, state, user: "", others: 0, busy_percent: null };
}

describe("the sparkline of a card", () => {
  it("is a line through the values and the area below it", () => {
    const spark = sparkline(hour([0, 100, 40]), "GPU-a", 1);
    expect(spark?.line).toBe("M0 100L1 0L2 60");
    expect(spark?.area).toBe("M0 100L0 100L1 0L2 60L2 100Z");
    expect([spark?.start, spark?.end]).toEqual([1000, 1030]);
  });

  it("bridges short gaps and breaks at long ones", () => {
    expect(sparkline(hour([10, null, 10, null, null, null, 20, 30]), "GPU-a", 5)?.line).toBe("M0 90L2 90M6 80L7 70");
  });

  it("draws an isolated value as a short line", () => {
    expect(sparkline(hour([null, null, 50]), "GPU-a", 1)?.line).toBe("M2 50L3 50");
  });

  it("has the states behind it", () => {
    const states = sparkline(hour([90, 90, 0, null], [run(1000, 1020, "busy"), run(1020, 1030, "held")]), "GPU-a", 1)?.states;
    expect(states?.map(({ state, start, end }) => [state, start, end])).toEqual([
      ["busy", 1000, 1020],
      ["held", 1020, 1030],
      [null, 1030, 1040],
    ]);
  });

  it("is null for a GPU without history", () => {
    expect(sparkline(hour([1]), "GPU-b", 1)).toBeNull();
  });
});
