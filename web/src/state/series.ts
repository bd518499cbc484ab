// Time series prepared for a plot: gaps stay gaps.

import type { Reading } from "../feed/state";

/** A value, a gap (`null`), or a point that the line skips (`undefined`). */
export type PlotValue = number | null | undefined;

export function timestamps(from: number, grainSeconds: number, count: number): number[] {
  return Array.from({ length: count }, (_, at) => from + at * grainSeconds);
}

/** Let the line skip gaps of at most `maxGap` points: a node that reports once a minute has a value once a minute. */
export function bridgeGaps(values: readonly Reading[], maxGap: number): PlotValue[] {
  const bridged: PlotValue[] = [...values];
  for (const [before, after] of shortGaps(values, maxGap)) bridged.fill(undefined, before + 1, after);
  return bridged;
}

/** The indices of the values before and after each gap of at most `maxGap` points. */
function* shortGaps(values: readonly Reading[], maxGap: number): Generator<[number, number]> {
  let last = values.length;
  for (const [at, value] of values.entries()) {
    if (value === null) continue;
    if (at - last > 1 && at - last - 1 <= maxGap) yield [last, at];
    last = at;
  }
}

/** How many points in a row a node may leave empty while it reports on time. */
export function maxGap(intervalSeconds: number | null, grainSeconds: number): number {
  return Math.max(1, Math.ceil((2 * (intervalSeconds ?? 0)) / grainSeconds));
}

/** The indices of values without a neighbour to draw a line to. */
export function isolatedPoints(values: readonly PlotValue[]): number[] {
  return values.flatMap((value, at) => (value != null && !hasNeighbour(values, at, -1) && !hasNeighbour(values, at, 1) ? [at] : []));
}

function hasNeighbour(values: readonly PlotValue[], at: number, step: 1 | -1): boolean {
  let next = at + step;
  while (next > 0 && next < values.length && values[next] === undefined) next += step;
  return values[next] != null;
}

/** The top of a plot: the expected maximum, or a round number above the highest value. */
export function axisMax(lines: readonly (readonly Reading[])[], expected: number): number {
  let max = expected;
  for (const values of lines) for (const value of values) if (value !== null && value > max) max = value;
  if (max === expected) return expected;
  const magnitude = 10 ** Math.floor(Math.log10(max));
  const step = [1, 2, 4, 5, 6, 8, 10].find((each) => each * magnitude >= max) ?? 10;
  return step * magnitude;
}

/** Minimum and maximum of the known values. */
export function extent(values: readonly Reading[]): { min: number; max: number } | null {
  const known = values.filter((value) => value !== null);
  return known.length ? { min: Math.min(...known), max: Math.max(...known) } : null;
}

/** Values from `start` on, every `grain` seconds, moved to other times: each gets the value that held then. */
export function alignValues(values: readonly Reading[], start: number, grain: number, to: { start: number; grain: number }): Reading[] {
  const count = Math.max(0, Math.ceil((start + values.length * grain - to.start) / to.grain));
  return Array.from({ length: count }, (_, at) => values[Math.floor((to.start + at * to.grain - start) / grain)] ?? null);
}

/** A line of a plot. The main line is the subject, its siblings are drawn faint, a GPU or host of another node is dashed. */
export interface Line {
  readonly name: string;
  readonly values: readonly PlotValue[];
  readonly kind: "main" | "sibling" | "other";
}

/** What a plot draws: its lines, the minimum and maximum around the main line, and the axes. */
export interface PlotLines {
  readonly times: readonly number[];
  readonly from: number;
  readonly to: number;
  readonly lines: readonly Line[];
  readonly low: readonly PlotValue[];
  readonly high: readonly PlotValue[];
  readonly min: number;
  readonly max: number;
}
