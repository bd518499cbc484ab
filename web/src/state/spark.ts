// A GPU's last hour as one small picture: a line, what is below it, and what the GPU was behind both.

import type { Figure } from "../feed/event";
import type { Hour } from "../feed/node";
import { type Drawn, type Stretch, bridged, expectedHoles, stretches } from "./series";

export const MOST = 100;

/** Across is a place of the hour, down is what is left to a hundred percent. */
export interface Spark {
  readonly from: number;
  readonly to: number;
  readonly figures: readonly Figure[];
  readonly line: string;
  readonly area: string;
  readonly states: readonly Stretch[];
}

type Point = readonly [across: number, down: number];

/** How busy a GPU was; `null` where the hour says nothing of it. */
export function sparkOf(hour: Hour, uuid: string, intervalSeconds: number | null): Spark | null {
  const own = hour.gpus[uuid];
  if (!own) return null;
  const { from, grain_seconds: grain } = hour;
  const holes = expectedHoles(intervalSeconds, grain);
  const runs = runsOf(bridged(own.busy_percent, holes));
  return {
    from,
    to: from + grain * own.busy_percent.length,
    figures: own.busy_percent,
    line: runs.map((run) => `M${run.map(written).join("L")}`).join(""),
    area: runs.map((run) => `M${foot(run[0])}L${run.map(written).join("L")}L${foot(run.at(-1))}Z`).join(""),
    states: stretches(own.state, from, grain, holes),
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
