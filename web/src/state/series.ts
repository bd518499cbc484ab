// Figures over time, arranged for a plot: what is unknown stays unknown.

import type { Figure } from "../feed/event";

/** A value, a hole (`null`), or a place that a line may pass over (`undefined`). */
export type Drawn = number | null | undefined;

/** The moments of so many figures. */
export function times(from: number, grainSeconds: number, count: number): number[] {
  return Array.from({ length: count }, (_, at) => from + at * grainSeconds);
}

/** Holes of at most so many places are passed over: a node that reports every minute has figures once a minute. */
export function bridged(figures: readonly Figure[], most: number): Drawn[] {
  const drawn: Drawn[] = [...figures];
  for (const [after, before] of holes(figures, most)) drawn.fill(undefined, after + 1, before);
  return drawn;
}

/** The known places on either side of each hole that is no longer than so many places. */
function* holes(values: readonly Figure[], most: number): Generator<[number, number]> {
  let known = values.length;
  for (const [at, value] of values.entries()) {
    if (value === null) continue;
    if (at - known > 1 && at - known - 1 <= most) yield [known, at];
    known = at;
  }
}

/** How many places in a row a node leaves empty that reports in time, or nearly. */
export function expectedHoles(intervalSeconds: number | null, grainSeconds: number): number {
  return Math.max(1, Math.ceil((2 * (intervalSeconds ?? 0)) / grainSeconds));
}

/** Values with no neighbour to draw a line to. */
export function alone(drawn: readonly Drawn[]): number[] {
  return drawn.flatMap((value, at) => (value != null && !joins(drawn, at, -1) && !joins(drawn, at, 1) ? [at] : []));
}

function joins(drawn: readonly Drawn[], at: number, step: 1 | -1): boolean {
  let next = at + step;
  while (next > 0 && next < drawn.length && drawn[next] === undefined) next += step;
  return drawn[next] != null;
}

/** The top of a plot: what is expected at most, or else a round number that none of the figures is above. */
export function ceiling(lines: readonly (readonly Figure[])[], expected: number): number {
  let most = expected;
  for (const figures of lines) for (const figure of figures) if (figure !== null && figure > most) most = figure;
  if (most === expected) return expected;
  const magnitude = 10 ** Math.floor(Math.log10(most));
  const step = [1, 2, 4, 5, 6, 8, 10].find((each) => each * magnitude >= most) ?? 10;
  return step * magnitude;
}

/** The least and the most of what is known. */
export function extent(figures: readonly Figure[]): { least: number; most: number } | null {
  const known = figures.filter((figure) => figure !== null);
  return known.length ? { least: Math.min(...known), most: Math.max(...known) } : null;
}

/** One line of a plot, or several: the one in ink is the subject, the others are there to compare it with. */
export interface Line {
  readonly name: string;
  readonly figures: readonly Drawn[];
  readonly ink: boolean;
}

/** A plot's moments and lines, how far the one in ink reached, and the box that they are drawn into. */
export interface Drawing {
  readonly times: readonly number[];
  readonly from: number;
  readonly to: number;
  readonly lines: readonly Line[];
  readonly low: readonly Drawn[];
  readonly high: readonly Drawn[];
  readonly least: number;
  readonly most: number;
}
