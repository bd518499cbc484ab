// The processes and the last hour of the GPUs in the table.

import { fetchSeries } from "../feed/history";
import { fetchNode } from "../feed/node";
import type { NodeView, Series } from "../feed/types";
import { NodeLookup } from "./nodeLookup.svelte";
import { page } from "./page.svelte";
import { spanEndingAt } from "./range";

const HOUR = 3600;
const POINTS = 60;

export function nodeDetails(): NodeLookup<NodeView> {
  return new NodeLookup((nodeId) => fetchNode(nodeId, page.moment));
}

export function lastHours(): NodeLookup<Series> {
  return new NodeLookup((nodeId) => fetchSeries(nodeId, spanEndingAt(page.now, HOUR), POINTS));
}

/** An SVG path through these values, one unit apart and 100 at the top; it breaks where a value is unknown. */
export function trendPath(values: readonly (number | null)[]): string {
  let [path, isDrawing] = ["", false];
  values.forEach((value, at) => {
    if (value !== null) path += `${isDrawing ? "L" : "M"}${at} ${Math.round(100 - value)}${isDrawing ? "" : "h.01"}`;
    isDrawing = value !== null;
  });
  return path;
}
