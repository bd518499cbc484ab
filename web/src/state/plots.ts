// The plots of a node: what of its figures over time goes into each of them.

import type { Figure } from "../feed/event";
import type { GpuFigure, NodeFigure, Series, Span, Told } from "../feed/history";
import type { GpuWhole, NodeWhole } from "../feed/node";
import { type Drawing, bridged, ceiling, expectedHoles, times } from "./series";

const GIB = 1024 ** 3;
const WARM_CELSIUS = 80;
const SMALL_WATTS = 100;
const SLOW_MHZ = 1000;
const NOT_TOLD: Told = { minimum: [], mean: [], maximum: [] };

export interface PlotOf {
  readonly drawing: Drawing;
  /** The figures of the line in ink, and what its node tells at the moment. */
  readonly figures: readonly Figure[];
  readonly now: Figure;
}

export type GpuPlot = "busy" | "memory" | "power" | "temperature" | "clock";
export type NodePlot = "cpu" | "memory";

/** The plots of one GPU, its siblings behind it. */
export function gpuPlots(node: NodeWhole, series: Series, span: Span, uuid: string): Record<GpuPlot, PlotOf> {
  const chosen = node.gpus.find((gpu) => gpu.uuid === uuid);
  const plot = (figure: GpuFigure, now: Figure | undefined, most: (lines: Figure[][]) => number, scale = 1): PlotOf => {
    const lines = node.gpus.flatMap((gpu) => named(gpu, series, figure, scale));
    return plotOf(node, series, span, lines, uuid, now, most(lines.map(({ told }) => told.maximum)));
  };
  return {
    busy: plot("busy_percent", chosen?.busy_percent, () => 100),
    memory: plot("memory_used_bytes", gibibytes(chosen?.memory_used_bytes), (lines) => ceiling(lines, gibibytes(chosen?.memory_total_bytes) ?? 1), GIB),
    power: plot("power_watts", chosen?.power_watts, (lines) => ceiling(lines, chosen?.power_limit_watts ?? SMALL_WATTS)),
    temperature: plot("temperature_celsius", chosen?.temperature_celsius, (lines) => ceiling(lines, WARM_CELSIUS)),
    clock: plot("sm_clock_mhz", chosen?.sm_clock_mhz, (lines) => ceiling(lines, chosen?.sm_clock_max_mhz ?? SLOW_MHZ)),
  };
}

/** The plots of the machine around the GPUs. */
export function nodePlots(node: NodeWhole, series: Series, span: Span): Record<NodePlot, PlotOf> {
  const { cpu_percent, memory_used_bytes: used, memory_total_bytes: total } = node.host;
  const plot = (figure: NodeFigure, now: Figure): PlotOf =>
    plotOf(node, series, span, [{ name: node.name, key: "", told: series.node[figure] ?? NOT_TOLD }], "", now, 100);
  return { cpu: plot("cpu_percent", cpu_percent), memory: plot("memory_percent", used === null || !total ? null : (100 * used) / total) };
}

interface Named {
  readonly key: string;
  readonly name: string;
  readonly told: Told;
}

function named({ uuid, index }: GpuWhole, series: Series, figure: GpuFigure, scale: number): Named[] {
  const told = series.gpus[uuid]?.[figure];
  return told ? [{ key: uuid, name: `GPU ${index}`, told: scaled(told, scale) }] : [];
}

function plotOf(node: NodeWhole, series: Series, span: Span, lines: readonly Named[], key: string, now: Figure | undefined, most: number): PlotOf {
  const { start, grain_seconds: grain } = series;
  const holes = expectedHoles(node.interval_seconds, grain);
  const { minimum, mean, maximum } = lines.find((line) => line.key === key)?.told ?? NOT_TOLD;
  return {
    drawing: {
      times: times(start, grain, Math.max(mean.length, ...lines.map(({ told }) => told.mean.length))),
      from: span.start,
      to: span.end,
      lines: lines.map((line) => ({ name: line.name, figures: bridged(line.told.mean, holes), ink: line.key === key })),
      low: bridged(minimum, holes),
      high: bridged(maximum, holes),
      least: 0,
      most,
    },
    figures: mean,
    now: node.silent ? null : (now ?? null),
  };
}

function scaled({ minimum, mean, maximum }: Told, scale: number): Told {
  const each = (figures: Figure[]): Figure[] => (scale === 1 ? figures : figures.map((figure) => (figure === null ? null : figure / scale)));
  return { minimum: each(minimum), mean: each(mean), maximum: each(maximum) };
}

function gibibytes(bytes: number | null | undefined): Figure {
  return bytes == null ? null : bytes / GIB;
}
