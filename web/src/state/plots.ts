// The plots of a node: what of the last hour goes into each of them.

import type { Figure } from "../feed/event";
import type { GpuHour, GpuWhole, Hour, NodeWhole } from "../feed/node";
import { type Drawing, type Stretch, bridged, ceiling, expectedHoles, latest, stretches, times } from "./series";

const MEBIBYTES_IN_A_GIBIBYTE = 1024;
const MEBI = 1024 * 1024;
const WARM_CELSIUS = 80;
const SMALL_WATTS = 100;

export interface PlotOf {
  readonly drawing: Drawing;
  readonly states: readonly Stretch[];
  /** The figures of the line in ink, and the newest of them. */
  readonly figures: readonly Figure[];
  readonly now: Figure;
}

export type GpuPlot = "busy" | "memory" | "power" | "temperature";
export type NodePlot = "cpu" | "memory";

/** The four plots of one GPU, its siblings behind it. */
export function gpuPlots(node: NodeWhole, hour: Hour, uuid: string): Record<GpuPlot, PlotOf> {
  const chosen = node.gpus.find((gpu) => gpu.uuid === uuid);
  const plot = (read: (hour: GpuHour) => Figure[], most: (lines: Figure[][]) => number): PlotOf => {
    const lines = node.gpus.flatMap((gpu) => named(gpu, hour, read));
    return plotOf(node, hour, lines, uuid, most(lines.map(({ figures }) => figures)));
  };
  return {
    busy: plot((each) => each.busy_percent, () => 100),
    memory: plot((each) => each.memory_used_mebibytes.map(gibibytes), (lines) => ceiling(lines, total(chosen))),
    power: plot((each) => each.power_watts, (lines) => ceiling(lines, chosen?.power_limit_watts ?? SMALL_WATTS)),
    temperature: plot((each) => each.temperature_celsius, (lines) => ceiling(lines, WARM_CELSIUS)),
  };
}

/** The plots of the machine around the GPUs. */
export function nodePlots(node: NodeWhole, hour: Hour): Record<NodePlot, PlotOf> {
  const plot = (figures: Figure[]): PlotOf => plotOf(node, hour, [{ name: node.name, key: "", figures }], "", 100);
  return { cpu: plot(hour.node.cpu_percent), memory: plot(hour.node.memory_percent) };
}

interface Named {
  readonly key: string;
  readonly name: string;
  readonly figures: Figure[];
}

function named(gpu: GpuWhole, hour: Hour, read: (hour: GpuHour) => Figure[]): Named[] {
  const own = hour.gpus[gpu.uuid];
  return own ? [{ key: gpu.uuid, name: `GPU ${gpu.index}`, figures: read(own) }] : [];
}

function plotOf(node: NodeWhole, hour: Hour, lines: readonly Named[], key: string, most: number): PlotOf {
  const { from, grain_seconds: grain } = hour;
  const count = hour.node.cpu_percent.length;
  const holes = expectedHoles(node.interval_seconds, grain);
  const figures = lines.find((line) => line.key === key)?.figures ?? [];
  return {
    drawing: {
      times: times(from, grain, count),
      from,
      to: from + grain * count,
      lines: lines.map((line) => ({ name: line.name, figures: bridged(line.figures, holes), ink: line.key === key })),
      least: 0,
      most,
    },
    states: stretches(hour.gpus[key]?.state ?? [], from, grain, holes),
    figures,
    now: latest(figures, holes),
  };
}

function gibibytes(mebibytes: Figure): Figure {
  return mebibytes === null ? null : mebibytes / MEBIBYTES_IN_A_GIBIBYTE;
}

function total(gpu: GpuWhole | undefined): number {
  return gpu?.memory_total_bytes ? gpu.memory_total_bytes / MEBI / MEBIBYTES_IN_A_GIBIBYTE : 1;
}
