// The plots of a node and its GPUs, from their series.

import type { GpuMetric, NodeMetric, Span } from "../feed/history";
import type { Reading } from "../feed/state";
import type { Figure, JudgedGpu, NodeView, Series } from "../feed/types";
import { type Line, type PlotLines, alignValues, axisMax, bridgeGaps, maxGap, timestamps } from "./series";

const GIB = 1024 ** 3;
// Tops of the axes where the GPU does not report a limit.
const TYPICAL_CELSIUS = 80;
const TYPICAL_WATTS = 100;
const TYPICAL_MHZ = 1000;
const NO_DATA: Figure = { minimum: [], mean: [], maximum: [] };

export interface PlotData {
  readonly lines: PlotLines;
  /** The values of the main line. */
  readonly figures: readonly Reading[];
  readonly now: Reading;
}

/** A GPU of another node, which the plots are compared with. */
export interface Compared {
  readonly uuid: string;
  readonly index: number;
  /** The name of its node. */
  readonly node: string;
  readonly series: Series;
}

export type GpuPlot = "busy" | "memory" | "power" | "temperature" | "clock";
export type NodePlot = "cpu" | "memory";

/** The plots of one GPU, with the other GPUs of its node and one of another node for comparison. */
export function gpuPlots(node: NodeView, series: Series, span: Span, uuid: string, compared?: Compared): Record<GpuPlot, PlotData> {
  const chosen = node.gpus.find((gpu) => gpu.uuid === uuid);
  const plot = (metric: GpuMetric, now: Reading | undefined, max: (lines: Reading[][]) => number, scale = 1): PlotData => {
    const siblings = node.gpus.flatMap((gpu) => gpuSeries(gpu, series, metric, scale));
    const lines = [...siblings, ...otherSeries(compared?.series.gpus[compared.uuid]?.[metric], compared, series, `${compared?.node} GPU ${compared?.index}`, scale)];
    return plotData(node, series, span, lines, uuid, now, max(lines.map(({ figure }) => figure.maximum)));
  };
  return {
    busy: plot("busy_percent", chosen?.busy_percent, () => 100),
    memory: plot("memory_used_bytes", gibibytes(chosen?.memory_used_bytes), (lines) => axisMax(lines, gibibytes(chosen?.memory_total_bytes) ?? 1), GIB),
    power: plot("power_watts", chosen?.power_watts, (lines) => axisMax(lines, chosen?.power_limit_watts ?? TYPICAL_WATTS)),
    temperature: plot("temperature_celsius", chosen?.temperature_celsius, (lines) => axisMax(lines, TYPICAL_CELSIUS)),
    clock: plot("sm_clock_mhz", chosen?.sm_clock_mhz, (lines) => axisMax(lines, chosen?.sm_clock_max_mhz ?? TYPICAL_MHZ)),
  };
}

/** The plots of the host, with that of another node for comparison. */
export function nodePlots(node: NodeView, series: Series, span: Span, compared?: Compared): Record<NodePlot, PlotData> {
  const { cpu_percent, memory_used_bytes: used, memory_total_bytes: total } = node.host;
  const plot = (metric: NodeMetric, now: Reading): PlotData => {
    const other = otherSeries(compared?.series.node[metric], compared, series, compared?.node ?? "", 1);
    return plotData(node, series, span, [{ name: node.name, key: "", figure: series.node[metric] ?? NO_DATA }, ...other], "", now, 100);
  };
  return { cpu: plot("cpu_percent", cpu_percent), memory: plot("memory_percent", used === null || !total ? null : (100 * used) / total) };
}

interface NamedSeries {
  readonly key: string;
  readonly name: string;
  readonly figure: Figure;
  readonly isOther?: boolean;
}

/** The figure of another node at the times of this one; nothing if it is not known. */
function otherSeries(figure: Figure | undefined, compared: Compared | undefined, own: Series, name: string, scale: number): NamedSeries[] {
  if (!figure || !compared) return [];
  const { start, grain_seconds: grain } = compared.series;
  const align = (values: Reading[]): Reading[] => alignValues(values, start, grain, { start: own.start, grain: own.grain_seconds });
  const aligned = { minimum: align(figure.minimum), mean: align(figure.mean), maximum: align(figure.maximum) };
  return [{ key: `other ${compared.uuid}`, name, figure: divide(aligned, scale), isOther: true }];
}

function gpuSeries({ uuid, index }: JudgedGpu, series: Series, metric: GpuMetric, scale: number): NamedSeries[] {
  const figure = series.gpus[uuid]?.[metric];
  return figure ? [{ key: uuid, name: `GPU ${index}`, figure: divide(figure, scale) }] : [];
}

function plotData(node: NodeView, series: Series, span: Span, all: readonly NamedSeries[], key: string, now: Reading | undefined, max: number): PlotData {
  const { start, grain_seconds: grain } = series;
  const gap = maxGap(node.interval_seconds, grain);
  const { minimum, mean, maximum } = all.find((each) => each.key === key)?.figure ?? NO_DATA;
  const kindOf = (each: NamedSeries): Line["kind"] => (each.isOther ? "other" : each.key === key ? "main" : "sibling");
  return {
    lines: {
      times: timestamps(start, grain, Math.max(mean.length, ...all.map(({ figure }) => figure.mean.length))),
      from: span.start,
      to: span.end,
      lines: all.map((each) => ({ name: each.name, values: bridgeGaps(each.figure.mean, gap), kind: kindOf(each) })),
      low: bridgeGaps(minimum, gap),
      high: bridgeGaps(maximum, gap),
      min: 0,
      max,
    },
    figures: mean,
    now: node.silent ? null : (now ?? null),
  };
}

function divide({ minimum, mean, maximum }: Figure, scale: number): Figure {
  const each = (values: Reading[]): Reading[] => (scale === 1 ? values : values.map((value) => (value === null ? null : value / scale)));
  return { minimum: each(minimum), mean: each(mean), maximum: each(maximum) };
}

function gibibytes(bytes: number | null | undefined): Reading {
  return bytes == null ? null : bytes / GIB;
}
