// The density ribbon: how much of the fleet was in use over days, as paths to draw.

import type { State } from "../feed/event";
import type { Ribbon } from "../feed/history";

/** Who is drawn, from the bottom up. */
export const DRAWN = ["busy", "held", "ghost", "broken"] as const satisfies readonly State[];

export interface Layer {
  readonly state: State;
  readonly path: string;
}

/** The box that is drawn into, and in how many parts. */
export interface Box {
  readonly width: number;
  readonly height: number;
  readonly columns: number;
}

/** A bar for each moment, from when it begins: what is in use of all that is there. */
export function layers({ start, end, moments }: Ribbon, { width, height, columns }: Box): Layer[] {
  const grain = (end - start) / columns;
  const most = Math.max(1, ...moments.map(({ gpus }) => total(gpus)));
  const paths = DRAWN.map(() => "");
  for (const { at, gpus } of moments) {
    const left = (width * (at - start)) / (end - start);
    const right = (width * (at + grain - start)) / (end - start);
    let bottom = height;
    for (const [layer, state] of DRAWN.entries()) {
      const tall = (height * (gpus[state] ?? 0)) / most;
      if (tall > 0) paths[layer] += `M${fixed(left)} ${fixed(bottom)}V${fixed(bottom - tall)}H${fixed(right)}V${fixed(bottom)}Z`;
      bottom -= tall;
    }
  }
  return DRAWN.map((state, layer) => ({ state, path: paths[layer] ?? "" }));
}

/** How many nodes were reporting at a moment; `null` where the ribbon does not know. */
export function momentAt({ moments }: Ribbon, at: number): Ribbon["moments"][number] | null {
  let nearest: Ribbon["moments"][number] | null = null;
  for (const moment of moments) if (nearest === null || Math.abs(moment.at - at) < Math.abs(nearest.at - at)) nearest = moment;
  return nearest;
}

function total(gpus: Partial<Record<State, number>>): number {
  return Object.values(gpus).reduce((sum, count) => sum + count, 0);
}

function fixed(value: number): string {
  return value.toFixed(1);
}
