import { expect, it } from "vitest";
import type { GpuOfNode, GpuPeriods, Holder, Period } from "../../src/feed/types";
import { eventKey, plotEvents, throttledSpans } from "../../src/state/plotEvents";
import { eventLength, eventText } from "../../src/text/plotEvents";
import { SERIES, figure } from "../details";

const SPAN = { start: 1000, end: 2000 };
const holder = (pid: number, user: string, command: string): Holder => ({ pid, user, group: null, name: "python", command, container: null, slurm_job: null, started_at: pid, memory_bytes: null });
const ALICE = holder(1, "alice", "python train.py --large");
const BOB = holder(2, "bob", "python -m vllm.serve");

function period(start: number, end: number | null, state: Period["state"], holders: Holder[] = [], reason = "why"): Period {
  return { start, end, state, reason, holders, certain: true, busy_percent: null };
}

const GPU: GpuOfNode = { uuid: "GPU-0", node_id: "1", node: "gpu01", index: 0, vendor: "nvidia", model: "A100", memory_total_bytes: null, parent: null };

function rows(...periods: Period[]): GpuPeriods[] {
  return [{ gpu: GPU, periods }];
}

function texts(...periods: Period[]): string[] {
  return describe(rows(...periods));
}

function describe(rows: GpuPeriods[]): string[] {
  return plotEvents(rows, SERIES, "GPU-0", SPAN, 1).map((event) => `${event.start} ${eventText(event)} ${eventLength(event, 2000)}`.trim());
}

it("a job that starts is one event, and so is the state after it", () => {
  expect(texts(period(900, 1100, "free"), period(1100, 1200, "busy", [ALICE]), period(1200, 1300, "busy", [ALICE, BOB]), period(1300, null, "held", [ALICE, BOB], "idle"))).toEqual([
    "1300 Held: idle for 11 min",
    "1200 bob started vllm.serve",
    "1100 alice started train.py",
  ]);
});

it("what began before the plot is no event, unless the GPU is broken or closed", () => {
  expect(texts(period(900, null, "busy", [ALICE]))).toEqual([]);
  expect(texts(period(900, 1100, "broken", [], "fell off the bus"), period(1100, 1200, "broken", [ALICE], "still"), period(1200, null, "free"))).toEqual([
    "1200 Free for 13 min",
    "1100 alice started train.py",
    "900 Broken: fell off the bus 5 min",
  ]);
  expect(texts(period(900, null, "leased", [], "closed by maria until Friday: new fan"))).toEqual(["900 Leased: closed by maria until Friday: new fan for 18 min"]);
});

it("a silent node leaves a gap, which is an event with its length", () => {
  expect(texts(period(900, 1100, "free"), period(1400, null, "free"))).toEqual(["1100 Silent 5 min"]);
});

it("several processes that start together are one event", () => {
  expect(texts(period(900, 1100, "free"), period(1100, null, "busy", [ALICE, { ...ALICE, pid: 7 }]))).toEqual(["1100 alice started train.py (2 processes)"]);
});

it("a job that starts on a MIG instance is an event of its GPU, other changes of an instance are none", () => {
  const instance = { ...GPU, uuid: "MIG-1", model: "2g.10gb", parent: "GPU-0" };
  const of = (...periods: Period[]): GpuPeriods => ({ gpu: instance, periods });
  const whole = { gpu: GPU, periods: [period(900, null, "busy")] };
  const one = of(period(900, 1100, "free"), period(1100, 1500, "busy", [ALICE]), period(1500, null, "free"));
  const other = { ...of(period(900, 1100, "free"), period(1100, null, "busy", [BOB])), gpu: { ...instance, uuid: "MIG-2" } };
  expect(describe([whole, one, other])).toEqual(["1100 alice started train.py on MIG 2g.10gb", "1100 bob started vllm.serve on MIG 2g.10gb"]);
  expect(new Set(plotEvents([whole, one, other], SERIES, "GPU-0", SPAN, 1).map(eventKey)).size).toBe(2);
});

it("throttling lasts over points that the node leaves empty, and ends with a gap", () => {
  const series = { ...SERIES, grain_seconds: 10, start: 1000 };
  expect(throttledSpans([0, 100, null, 40, 5, null, null, null, 100], series, 5)).toEqual([{ start: 1010, end: 1040 }, { start: 1080, end: 1090 }]);
  const throttled = { ...SERIES, gpus: { "GPU-0": { throttled_percent: figure(0, 100, 100) } } };
  const [event] = plotEvents([], throttled, "GPU-0", SPAN, 1);
  expect(event && [eventText(event), eventLength(event, 2000)]).toEqual(["Throttled", "20 s"]);
});
