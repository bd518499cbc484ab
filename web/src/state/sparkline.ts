// The sparkline of a GPU's last hour: SVG paths for utilisation, and the states behind them.

import type { Reading } from "../feed/state";
import type { NodeRecords } from "./nodeHistory.svelte";
import { type PlotValue, bridgeGaps, maxGap } from "./series";
import { type Segment, segmentsOf } from "./timeline";

export const MAX_PERCENT = 100;

/** Paths in a box with one unit per value across, and 100 % at the top. */
export interface Sparkline {
  readonly start: number;
  readonly end: number;
  readonly values: readonly Reading[];
  readonly line: string;
  readonly area: string;
  readonly states: readonly Segment[];
}

type Point = readonly [x: number, y: number];

/** The sparkline of a GPU; `null` if there is no history of it. */
export function sparkline({ series, strips }: NodeRecords, uuid: string, intervalSeconds: number | null): Sparkline | null {
  const values = series.gpus[uuid]?.busy_percent?.mean;
  if (!values) return null;
  const { start, grain_seconds: grain } = series;
  const lines = linesThrough(bridgeGaps(values, maxGap(intervalSeconds, grain)));
  const strip = strips.rows.find(({ gpu }) => gpu.uuid === uuid);
  return {
    start,
    end: start + grain * values.length,
    values,
    line: lines.map((points) => `M${points.map(coordinates).join("L")}`).join(""),
    area: lines.map((points) => `M${atBottom(points[0])}L${points.map(coordinates).join("L")}L${atBottom(points.at(-1))}Z`).join(""),
    states: segmentsOf(strip?.runs ?? [], strips),
  };
}

/** The unbroken lines; a single value becomes a line of length one. */
function linesThrough(values: readonly PlotValue[]): Point[][] {
  const lines: Point[][] = [];
  let current: Point[] | null = null;
  values.forEach((value, at) => {
    if (value === null) current = null;
    else if (value !== undefined) {
      if (!current) lines.push((current = []));
      current.push([at, MAX_PERCENT - value]);
    }
  });
  return lines.map((points) => (points.length === 1 ? points.flatMap(([x, y]): Point[] => [[x, y], [x + 1, y]]) : points));
}

function coordinates([x, y]: Point): string {
  return `${x} ${y}`;
}

function atBottom(point: Point | undefined): string {
  return `${point?.[0] ?? 0} ${MAX_PERCENT}`;
}
