// Texts of the plots: titles, axes, and descriptions for screen readers.

import type { Reading } from "../feed/state";
import type { GpuPlot, NodePlot, PlotData } from "../state/plots";
import { extent } from "../state/series";
import { UNKNOWN, grouped } from "./format";
import { clockTime, monthDay } from "./time";

const DAY_SECONDS = 86_400;

const GPU_PLOTS: Record<GpuPlot, [title: string, unit: string]> = {
  busy: ["Utilisation", "%"],
  memory: ["Memory", "GiB"],
  power: ["Power", "W"],
  temperature: ["Temperature", "°C"],
  clock: ["SM clock", "MHz"],
};
const NODE_PLOTS: Record<NodePlot, [title: string, unit: string, note: string]> = {
  cpu: ["CPU", "%", "all cores"],
  memory: ["Host memory", "%", ""],
};
export const LAST_HOUR = "last hour";
export const NO_DATA = "no data in this period";

/** A plot with its texts. */
export interface LabelledPlot {
  readonly title: string;
  readonly unit: string;
  readonly note: string;
  readonly plot: PlotData;
}

/** The plots of the GPU with this index. */
export function gpuPlotLabels(plots: Record<GpuPlot, PlotData>, index: number, isMig: boolean): LabelledPlot[] {
  return Object.entries(GPU_PLOTS).map(([kind, [title, unit]], at) => {
    const plot = plots[kind as GpuPlot];
    const hasData = extent(plot.figures) !== null;
    return { title, unit, note: at === 0 || !hasData ? lineKey(index, hasSiblings(plot), hasData, isMig) : "", plot };
  });
}

export function nodePlotLabels(plots: Record<NodePlot, PlotData>): LabelledPlot[] {
  return Object.entries(NODE_PLOTS).map(([kind, [title, unit, note]]) => ({ title, unit, note, plot: plots[kind as NodePlot] }));
}

/** Which line is which. */
function lineKey(index: number, withSiblings: boolean, hasData: boolean, isMig: boolean): string {
  if (!withSiblings) return hasData ? "" : NO_DATA;
  if (hasData) return `GPU ${index}; other GPUs in grey`;
  return isMig ? "Not reported under MIG; other GPUs in grey" : `Not reported for GPU ${index}; other GPUs in grey`;
}

function hasSiblings({ lines }: PlotData): boolean {
  return lines.lines.some(({ kind, values }) => kind === "sibling" && values.some((value) => value != null));
}

/** "18:04"; "03-12" if the plot shows days. */
export function axisTime(seconds: number, rangeSeconds: number): string {
  return rangeSeconds > 2 * DAY_SECONDS ? monthDay(seconds) : clockTime(seconds);
}

/** "95 %". */
export function readingText(value: Reading | undefined, unit: string): string {
  if (value == null) return UNKNOWN;
  return `${Math.abs(value) < 10 ? Number(value.toFixed(1)) : grouped(Math.round(value))} ${unit}`;
}

/** The plot in one sentence. */
export function plotAriaLabel(title: string, values: readonly Reading[], now: Reading, unit: string): string {
  const found = extent(values);
  if (!found) return `${title}: ${NO_DATA}`;
  return `${title}: now ${readingText(now, unit)}, between ${readingText(found.min, unit)} and ${readingText(found.max, unit)}`;
}
