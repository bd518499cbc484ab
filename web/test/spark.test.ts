import { describe, expect, it, vi } from "vitest";
import { briefly } from "../src/feed/briefly";
import type { Figure, State } from "../src/feed/event";
import type { Hour } from "../src/feed/node";
import { sparkOf } from "../src/state/spark";

function hour(busy: Figure[], state: (State | null)[] = []): Hour {
  const none = busy.map(() => null);
  return {
    grain_seconds: 10,
    from: 1000,
    node: { cpu_percent: none, memory_percent: none },
    gpus: { "GPU-a": { busy_percent: busy, memory_used_mebibytes: none, power_watts: none, temperature_celsius: none, state } },
  };
}

describe("the last hour in a card", () => {
  it("is a line from figure to figure, and what is below it", () => {
    const spark = sparkOf(hour([0, 100, 40]), "GPU-a", 1);
    expect(spark?.line).toBe("M0 100L1 0L2 60");
    expect(spark?.area).toBe("M0 100L0 100L1 0L2 60L2 100Z");
    expect([spark?.from, spark?.to]).toEqual([1000, 1030]);
  });

  it("passes over what a slow node leaves out, and breaks where nothing came", () => {
    expect(sparkOf(hour([10, null, 10, null, null, null, 20, 30]), "GPU-a", 5)?.line).toBe("M0 90L2 90M6 80L7 70");
  });

  it("draws a figure alone as long as its place", () => {
    expect(sparkOf(hour([null, null, 50]), "GPU-a", 1)?.line).toBe("M2 50L3 50");
  });

  it("has the states behind it", () => {
    const states = sparkOf(hour([90, 90, 0], ["busy", "busy", "held"]), "GPU-a", 1)?.states;
    expect(states?.map(({ state, from, to }) => [state, from, to])).toEqual([
      ["busy", 1000, 1020],
      ["held", 1020, 1030],
    ]);
  });

  it("is nothing for a GPU that the hour does not know", () => {
    expect(sparkOf(hour([1]), "GPU-b", 1)).toBeNull();
  });
});

describe("an answer that is fresh", () => {
  it("is not asked for again, and one that is not is", () => {
    const clock = vi.spyOn(performance, "now").mockReturnValue(0);
    const asked = vi.fn((subject: string) => Promise.resolve(subject));
    const look = briefly(1000, asked);
    void [look("a"), look("a"), look("b")];
    expect(asked).toHaveBeenCalledTimes(2);
    clock.mockReturnValue(1001);
    void look("a");
    expect(asked).toHaveBeenCalledTimes(3);
    clock.mockRestore();
  });
});
