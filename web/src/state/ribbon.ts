// The usage ribbon: GPUs in use over days, as SVG paths.

import type { State } from "../feed/state";
import type { Span } from "../feed/history";
import type { GrainRetention, Ribbon } from "../feed/types";

/** The states in the ribbon, from the bottom up. */
export const RIBBON_STATES = ["busy", "held", "ghost", "broken"] as const satisfies readonly State[];

export interface Layer {
  readonly state: State;
  readonly path: string;
}

/** The size of the drawing and its number of columns. */
export interface Box {
  readonly width: number;
  readonly height: number;
  readonly columns: number;
}

const MIN_HISTORY_SECONDS = 2 * 3600;
const MAX_COLUMNS = 168;
/** The finest column: a bar of less than a few samples would be a comb of slivers. */
const MIN_COLUMN_SECONDS = 300;

/** Whether the history is long enough for a ribbon to say something. */
export function isWorthShowing(oldest: number | null, now: number): boolean {
  return oldest !== null && now - oldest >= MIN_HISTORY_SECONDS;
}

/** The number of columns of a ribbon: never finer than the grain of what is stored that far back. */
export function columnCount({ start, end }: Span, grains: readonly GrainRetention[], now: number): number {
  const kept = grains.filter(({ keep_seconds: keep }) => now - start <= keep).map(({ grain_seconds: grain }) => grain);
  const grain = Math.max(MIN_COLUMN_SECONDS, kept.length ? Math.min(...kept) : 0);
  return Math.max(1, Math.min(MAX_COLUMNS, Math.floor((end - start) / grain)));
}

/** One layer per state, with a bar per moment. */
export function layers({ start, end, moments }: Ribbon, { width, height, columns }: Box): Layer[] {
  const grain = (end - start) / columns;
  const max = Math.max(1, ...moments.map(({ gpus }) => total(gpus)));
  const paths = RIBBON_STATES.map(() => "");
  for (const { at, gpus } of moments) {
    const left = (width * (at - start)) / (end - start);
    const right = (width * (at + grain - start)) / (end - start);
    let bottom = height;
    for (const [layer, state] of RIBBON_STATES.entries()) {
      const barHeight = (height * (gpus[state] ?? 0)) / max;
      if (barHeight > 0) paths[layer] += `M${fixed(left)} ${fixed(bottom)}V${fixed(bottom - barHeight)}H${fixed(right)}V${fixed(bottom)}Z`;
      bottom -= barHeight;
    }
  }
  return RIBBON_STATES.map((state, layer) => ({ state, path: paths[layer] ?? "" }));
}

/** The point of the ribbon nearest to a moment; `null` if it is empty. */
export function nearestMoment({ moments }: Ribbon, at: number): Ribbon["moments"][number] | null {
  let nearest: Ribbon["moments"][number] | null = null;
  for (const moment of moments) if (nearest === null || Math.abs(moment.at - at) < Math.abs(nearest.at - at)) nearest = moment;
  return nearest;
}

function total(gpus: Record<string, number>): number {
  return Object.values(gpus).reduce((sum, count) => sum + count, 0);
}

function fixed(value: number): string {
  return value.toFixed(1);
}
