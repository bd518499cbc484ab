// The events of a GPU that its plots mark: changes of state, closings, starts of jobs, throttling, silence.

import type { Span } from "../feed/history";
import type { Reading, State } from "../feed/state";
import type { GpuOfNode, GpuPeriods, Holder, Period, Series } from "../feed/types";
import { bridgeGaps, maxGap } from "./series";

export interface PlotEvent {
  readonly kind: "job" | "state" | "silent" | "throttled";
  readonly start: number;
  /** `null` while it lasts. */
  readonly end: number | null;
  /** The state from then on; `null` for throttling, which is beside every state. */
  readonly state: State | null;
  /** Why it is in that state, in the hub's words. */
  readonly reason: string;
  /** The processes that started. */
  readonly holders: readonly Holder[];
  /** The MIG instance that they started on; absent for the GPU itself. */
  readonly instance?: GpuOfNode;
}

/** A shorter pause between two periods is no silence. */
const MIN_SILENCE_SECONDS = 1;
/** A smaller share of a time step is too little to shade all of it. */
const MIN_THROTTLED_PERCENT = 10;
/** States that are shown even if they began before the plot does. */
const LASTING: readonly State[] = ["broken", "leased"];
/** In these states, the start of a job says why the state changed. */
const USED: readonly State[] = ["busy", "held", "leased"];

/** The events of a GPU in a time span, the latest first; with the starts of jobs on its MIG instances. */
export function plotEvents(rows: readonly GpuPeriods[], series: Series, uuid: string, span: Span, intervalSeconds: number | null): PlotEvent[] {
  const periods = rows.find(({ gpu }) => gpu.uuid === uuid)?.periods ?? [];
  const instances = rows.filter(({ gpu }) => gpu.parent === uuid);
  // A coarse time step that ends after a fault was throttled before it.
  const brokenAt = periods.filter(({ state }) => state === "broken").map(({ start }) => start);
  const untilBroken = ({ start, end }: Span): Span => ({ start, end: Math.min(end, brokenAt.find((at) => at > start) ?? end) });
  const throttled = throttledSpans(series.gpus[uuid]?.throttled_percent?.mean ?? [], series, intervalSeconds).map(untilBroken);
  const events: PlotEvent[] = [
    ...periodEvents(periods, span),
    ...instances.flatMap((row) => instanceJobs(row, span)),
    ...throttled.map(({ start, end }): PlotEvent => ({ kind: "throttled", start, end, state: null, reason: "", holders: [] })),
  ];
  return events.sort((a, b) => b.start - a.start);
}

/** The starts of jobs on a MIG instance: the history of the GPU itself has none of them. */
function instanceJobs({ gpu, periods }: GpuPeriods, span: Span): PlotEvent[] {
  return [...periodEvents(periods, span)].filter(({ kind }) => kind === "job").map((event) => ({ ...event, instance: gpu }));
}

/** Tells one event from the others in a list. */
export function eventKey({ kind, start, instance }: PlotEvent): string {
  return `${kind} ${start} ${instance?.uuid ?? ""}`;
}

function* periodEvents(periods: readonly Period[], span: Span): Generator<PlotEvent> {
  for (const [at, period] of periods.entries()) {
    const before = periods[at - 1];
    const { start, state, reason, holders } = period;
    const silentSince = before?.end ?? start;
    if (start - silentSince > MIN_SILENCE_SECONDS) yield { kind: "silent", start: silentSince, end: start, state: "unknown", reason: "", holders: [] };
    if (!before && start <= span.start) {
      if (LASTING.includes(state)) yield { kind: "state", start, end: endOf(periods, at), state, reason, holders: [] };
      continue;
    }
    const started = holders.filter((holder) => !before?.holders.some((each) => isSame(each, holder)));
    if (started.length) yield { kind: "job", start, end: null, state, reason, holders: started };
    const isExplained = started.length > 0 && USED.includes(state);
    if (before && before.state !== state && !isExplained) yield { kind: "state", start, end: endOf(periods, at), state, reason, holders: [] };
  }
}

/** When the state of a period ended: that of those after it, as long as it is the same. */
function endOf(periods: readonly Period[], at: number): number | null {
  let end = periods[at]?.end ?? null;
  for (const next of periods.slice(at + 1)) {
    if (next.state !== periods[at]?.state) break;
    end = next.end;
  }
  return end;
}

function isSame(one: Holder, other: Holder): boolean {
  return one.pid === other.pid && one.started_at === other.started_at;
}

/** The spans in which a GPU was slowed down. */
export function throttledSpans(percents: readonly Reading[], { start, grain_seconds: grain }: Series, intervalSeconds: number | null): Span[] {
  const spans: Span[] = [];
  let since: number | null = null;
  const values = [...bridgeGaps(percents, maxGap(intervalSeconds, grain)), null];
  for (const [at, value] of values.entries()) {
    if (value === undefined) continue;
    const isThrottled = value !== null && value >= MIN_THROTTLED_PERCENT;
    if (isThrottled) since ??= start + at * grain;
    else if (since !== null) {
      spans.push({ start: since, end: start + at * grain });
      since = null;
    }
  }
  return spans;
}
