// A GPU's last hour as one small picture: a line, what is below it, and what the GPU was behind both.

import type { Figure } from "../feed/event";
import { type Stretch, stretchesOf } from "./blocks";
import type { Recalled } from "./lookback.svelte";
import { type Drawn, bridged, expectedHoles } from "./series";

export const MOST = 100;

/** Across is a place of the hour, down is what is left to a hundred percent. */
export interface Spark {
  readonly start: number;
  readonly end: number;
  readonly figures: readonly Figure[];
  readonly line: string;
  readonly area: string;
  readonly states: readonly Stretch[];
}

type Point = readonly [across: number, down: number];

/** How busy a GPU was; `null` where nothing is known of it. */
export function sparkOf({ series, strips }: Recalled, uuid: string, intervalSeconds: number | null): Spark | null {
  const figures = series.gpus[uuid]?.busy_percent?.mean;
  if (!figures) return null;
  const { start, grain_seconds: grain } = series;
  const runs = runsOf(bridged(figures, expectedHoles(intervalSeconds, grain)));
  const strip = strips.rows.find(({ gpu }) => gpu.uuid === uuid);
  return {
    start,
    end: start + grain * figures.length,
    figures,
    line: runs.map((run) => `M${run.map(written).join("L")}`).join(""),
    area: runs.map((run) => `M${foot(run[0])}L${run.map(written).join("L")}L${foot(run.at(-1))}Z`).join(""),
    states: stretchesOf(strip?.runs ?? [], strips),
  };
}

/** What one line can be drawn through; a figure alone is a line as long as its place. */
function runsOf(drawn: readonly Drawn[]): Point[][] {
  const runs: Point[][] = [];
  let open: Point[] | null = null;
  drawn.forEach((value, at) => {
    if (value === null) open = null;
    else if (value !== undefined) {
      if (!open) runs.push((open = []));
      open.push([at, MOST - value]);
    }
  });
  return runs.map((run) => (run.length === 1 ? run.flatMap(([at, down]): Point[] => [[at, down], [at + 1, down]]) : run));
}

function written([across, down]: Point): string {
  return `${across} ${down}`;
}

function foot(point: Point | undefined): string {
  return `${point?.[0] ?? 0} ${MOST}`;
}
