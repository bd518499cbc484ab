// What a plot says: its moments, and itself to those who hear it.

import type { Figure } from "../feed/event";
import type { GpuPlot, NodePlot, PlotOf } from "../state/plots";
import { extent } from "../state/series";
import { NOT_MEASURED } from "./words";

const DAY_SECONDS = 86_400;
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

const GPU_PLOTS: Record<GpuPlot, [title: string, unit: string]> = {
  busy: ["Utilisation", "%"],
  memory: ["Memory", "GiB"],
  power: ["Power", "W"],
  temperature: ["Temperature", "°C"],
  clock: ["SM clock", "MHz"],
};
const NODE_PLOTS: Record<NodePlot, [title: string, unit: string, note: string]> = {
  cpu: ["CPU", "%", "all of the machine's processors"],
  memory: ["Host memory", "%", "of the machine's own"],
};
export const LAST_HOUR = "last hour";
export const NOT_YET = "not measured in this time";

/** A plot with its words. */
export interface Titled {
  readonly title: string;
  readonly unit: string;
  readonly note: string;
  readonly plot: PlotOf;
}

/** The plots of the GPU with this index. */
export function titledGpuPlots(plots: Record<GpuPlot, PlotOf>, index: number): Titled[] {
  return Object.entries(GPU_PLOTS).map(([kind, [title, unit]], at) => {
    const plot = plots[kind as GpuPlot];
    const isMeasured = extent(plot.figures) !== null;
    return { title, unit, note: at === 0 || !isMeasured ? whichLine(index, hasSiblings(plot), isMeasured) : "", plot };
  });
}

export function titledNodePlots(plots: Record<NodePlot, PlotOf>): Titled[] {
  return Object.entries(NODE_PLOTS).map(([kind, [title, unit, note]]) => ({ title, unit, note, plot: plots[kind as NodePlot] }));
}

/** Which of the lines is which. */
function whichLine(index: number, withSiblings: boolean, isMeasured: boolean): string {
  if (!withSiblings) return isMeasured ? "" : NOT_YET;
  return isMeasured ? `GPU ${index} in ink, its siblings behind` : `GPU ${index} cannot tell, its siblings are behind`;
}

function hasSiblings({ drawing }: PlotOf): boolean {
  return drawing.lines.some(({ ink, figures }) => !ink && figures.some((figure) => figure != null));
}

/** "18:04"; "12 Mar" where the plot shows days. */
export function moment(seconds: number, rangeSeconds: number): string {
  return (rangeSeconds > 2 * DAY_SECONDS ? DAY : CLOCK).format(seconds * 1000);
}

/** "95 %". */
export function figureWords(figure: Figure | undefined, unit: string): string {
  if (figure == null) return NOT_MEASURED;
  return `${Math.abs(figure) < 10 ? Number(figure.toFixed(1)) : Math.round(figure)} ${unit}`;
}

/** The plot in one sentence. */
export function plotSpoken(title: string, figures: readonly Figure[], now: Figure, unit: string): string {
  const found = extent(figures);
  if (!found) return `${title}: ${NOT_YET}`;
  return `${title}: now ${figureWords(now, unit)}, between ${figureWords(found.least, unit)} and ${figureWords(found.most, unit)}`;
}
