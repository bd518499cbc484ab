import { expect, it } from "vitest";
import { gpuPlots, nodePlots } from "../../src/state/plots";
import { GIB, SERIES, SPAN, figure, gpu, node } from "../details";

it("the selected GPU is the main line", () => {
  const { busy } = gpuPlots(node([gpu(0), gpu(1, { busy_percent: 8 })]), SERIES, SPAN, "GPU-1");
  expect(busy.lines.lines.map(({ name, kind }) => [name, kind])).toEqual([["GPU 0", "sibling"], ["GPU 1", "main"]]);
  expect([busy.now, busy.lines.from, busy.lines.to, busy.lines.max]).toEqual([8, 1000, 1030, 100]);
});

it("a plot ends at the limit of the GPU unless a value is above it", () => {
  const { power, memory, temperature } = gpuPlots(node([gpu(0, { power_limit_watts: 400, memory_total_bytes: 8 * GIB }), gpu(1)]), SERIES, SPAN, "GPU-0");
  expect([power.lines.max, memory.lines.max, temperature.lines.max]).toEqual([400, 8, 100]);
  expect(memory.figures).toEqual([1, 1, 2]);
});

it("the current value comes from the node, and is unknown if it is silent", () => {
  const gpus = [gpu(0, { busy_percent: 50, memory_used_bytes: 3 * GIB })];
  const said = [false, true].map((silent) => gpuPlots(node(gpus, { silent }), SERIES, SPAN, "GPU-0"));
  expect(said.map(({ busy, memory, power }) => [busy.now, memory.now, power.now])).toEqual([[50, 3, null], [null, null, null]]);
});

it("a GPU without history has no lines", () => {
  const { busy } = gpuPlots(node([gpu(7)]), SERIES, SPAN, "GPU-7");
  expect([busy.lines.lines, busy.lines.low, busy.now]).toEqual([[], [], null]);
});

it("the main line has a band from minimum to maximum", () => {
  const memoryFigure = { minimum: [0, 2 ** 30], mean: [2 ** 30, 2 ** 31], maximum: [2 ** 31, 2 ** 32] };
  const { memory } = gpuPlots(node([gpu(0)]), { start: 1000, grain_seconds: 10, node: {}, gpus: { "GPU-0": { memory_used_bytes: memoryFigure } } }, SPAN, "GPU-0");
  expect([memory.lines.low, memory.figures, memory.lines.high]).toEqual([[0, 1], [1, 2], [2, 4]]);
});

it("a GPU of another node is a line of its own, at the times of this one", () => {
  // Its grain is coarser and it begins later: 1010 is the second of the three times.
  const series = { start: 1010, grain_seconds: 20, node: { cpu_percent: figure(55) }, gpus: { "GPU-9": { busy_percent: figure(70), power_watts: figure(900) } } };
  const compared = { uuid: "GPU-9", index: 4, node: "gpu02", series };
  const { busy, power, memory } = gpuPlots(node([gpu(0)]), SERIES, SPAN, "GPU-0", compared);
  expect(busy.lines.lines.at(-1)).toEqual({ name: "gpu02 GPU 4", values: [null, 70, 70], kind: "other" });
  expect(power.lines.max).toBe(1000);
  expect(memory.lines.lines).toHaveLength(1);
  const { cpu } = nodePlots(node([gpu(0)]), SERIES, SPAN, compared);
  expect(cpu.lines.lines.map(({ name, kind }) => [name, kind])).toEqual([["gpu01", "main"], ["gpu02", "other"]]);
});
