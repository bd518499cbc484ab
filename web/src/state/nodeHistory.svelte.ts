// The history of one node over a time span: series and strips, reloaded as time goes on.

import { cached } from "../feed/cache";
import { type Span, fetchPeriods, fetchSeries, fetchStrips } from "../feed/history";
import type { GpuPeriods, Series, Strips } from "../feed/types";
import { page } from "./page.svelte";
import { type Range, formatZoom, parseRange, parseZoom, rangeSeconds, spanEndingAt, visibleSpan } from "./range";
import { Resource } from "./resource.svelte";
import { route } from "./route.svelte";

const HOUR = 3600;
const POINTS = 720;
const COLUMNS = 240;
const LAST_HOUR_TTL_MS = 9000;

export interface NodeRecords {
  readonly span: Span;
  readonly series: Series;
  readonly strips: Strips;
}

/** The selected range or zoom of the history of a node, and the records loaded for it. */
export class NodeHistoryState {
  readonly records = new Resource<NodeRecords>();
  /** The states of the plotted GPU and of its MIG instances. */
  readonly periods = new Resource<readonly GpuPeriods[]>();
  /** The series of the node that it is compared with. */
  readonly compared = new Resource<Series>();
  private before: Span | null = null;

  get range(): Range {
    return parseRange(route.range, "1h");
  }

  get isZoomed(): boolean {
    return parseZoom(route.zoom) !== null;
  }

  /** Whether the address names neither range nor zoom. */
  get isDefault(): boolean {
    return route.range === "" && route.zoom === "";
  }

  setRange(range: Range): void {
    route.setRange(range);
  }

  /** Zoom into a part; `null` zooms out. */
  zoom(part: Span | null): void {
    route.setZoom(part === null ? "" : formatZoom(part));
  }

  /** Load the records of a node, or those of the hour before a moment; for an effect, which runs again when the span changes. */
  watch(nodeId: string, before: number | null = null): () => void {
    const { start, end } = parseZoom(route.zoom) ?? (before === null ? this.currentSpan() : spanBefore(before));
    return this.records.load((signal) => loadRecords(nodeId, { start, end }, signal));
  }

  /** Load the states of a GPU over the span of the records; for an effect. */
  watchPeriods(nodeId: string, uuid: string, span: Span): () => void {
    return this.periods.load((signal) => fetchPeriods(nodeId, uuid, span, signal));
  }

  /** Load the series of another node over the same span; for an effect. */
  watchCompared(nodeId: string, span: Span): () => void {
    return this.compared.load((signal) => fetchSeries(nodeId, span, POINTS, signal));
  }

  private currentSpan(): Span {
    const seconds = rangeSeconds(this.range);
    const stepSeconds = Math.min(60, seconds / 240);
    return (this.before = visibleSpan(route.at, Math.floor(page.clock / stepSeconds) * stepSeconds, seconds, this.before));
  }
}

/** The hour before a moment, and what came next. */
function spanBefore(moment: number): Span {
  const end = Math.min(page.clock, moment + 0.1 * HOUR);
  return { start: Math.round(moment) - HOUR, end: Math.round(end / 60) * 60 };
}

/** The last hour of a node, at most some seconds old. */
export const lastHour = cached<NodeRecords>(LAST_HOUR_TTL_MS, (nodeId) => loadRecords(nodeId, spanEndingAt(page.clock, rangeSeconds("1h"))));

async function loadRecords(nodeId: string, span: Span, signal?: AbortSignal): Promise<NodeRecords> {
  const [series, strips] = await Promise.all([fetchSeries(nodeId, span, POINTS, signal), fetchStrips(span, COLUMNS, { node: nodeId }, signal)]);
  return { span, series, strips };
}
