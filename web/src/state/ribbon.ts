// The usage ribbon: GPUs in use over days, as SVG paths.

import type { State } from "../feed/state";
import type { Ribbon } from "../feed/types";

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
