import { expect, it } from "vitest";
import type { Reading } from "../../src/feed/state";
import type { Figure, Host, JudgedGpu, NodeView, Series } from "../../src/feed/types";
import { nodePlots } from "../../src/state/plots";
import { plotAriaLabel, readingText } from "../../src/text/plot";

const HOST: Host = { addresses: [], kernel: null, driver_version: null, cuda_version: null, booted_at: null, cpu_count: null, cpu_percent: null, load_1_minute: null, load_5_minutes: null, load_15_minutes: null, memory_used_bytes: null, memory_total_bytes: null };
const SPAN = { start: 1000, end: 1030 };

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

function told(...figures: Reading[]): Figure {
  return { minimum: figures, mean: figures, maximum: figures };
}

const SERIES: Series = {
  start: 1000,
  grain_seconds: 10,
  node: { cpu_percent: told(10, null, 30), memory_percent: told(null, null, null) },
  gpus: {
    "GPU-0": { busy_percent: told(0, null, 90), memory_used_bytes: told(2 ** 30, 2 ** 30, 2 ** 31), power_watts: told(70, 80, 350), temperature_celsius: told(30, 31, 32) },
    "GPU-1": { busy_percent: told(5, 6, 7), memory_used_bytes: told(0, 0, 0), power_watts: told(null, null, null), temperature_celsius: told(90, 91, 92) },
  },
};

it("a plot without data says so", () => {
  const { cpu, memory } = nodePlots(node([], { host: { ...HOST, cpu_percent: 31 } }), SERIES, SPAN);
  expect(plotAriaLabel("CPU", cpu.figures, cpu.now, "%")).toBe("CPU: now 31 %, between 10 % and 30 %");
  expect(plotAriaLabel("Host memory", memory.figures, memory.now, "%")).toBe("Host memory: no data in this period");
});

it("small values have one decimal, and unknown values are a dash", () => {
  expect([0, 3.14, 99.6, null, undefined].map((figure) => readingText(figure, "W"))).toEqual(["0 W", "3.1 W", "100 W", "—", "—"]);
});
