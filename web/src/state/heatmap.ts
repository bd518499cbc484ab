// The layout of the heat map: one line of eight squares per node, one column of lines per group.

import type { Group } from "./arrange";

export const SQUARES_PER_LINE = 8;
const MAX_LINES = 32;
const CAPTION_HEIGHT = 18;
const GAP = 16;
const [LARGE, MIDDLE, SMALL] = [22, 14, 9];

/** Up to eight GPUs of a node, starting at `first`. */
export interface Line {
  readonly number: number;
  readonly first: number;
  readonly count: number;
}

/** A column: the position of its first square, and its lines. `continued` if its group started in an earlier column. */
export interface Column {
  readonly name: string | null;
  readonly continued: boolean;
  readonly left: number;
  readonly top: number;
  readonly lines: readonly Line[];
}

export interface HeatmapPlan {
  readonly pitch: number;
  readonly columns: readonly Column[];
  /** How many columns stand side by side. */
  readonly abreast: number;
  readonly height: number;
}

/** The position of a square: column, line in the column, index in the line. */
export interface Square {
  readonly column: number;
  readonly line: number;
  readonly place: number;
}

/** Lay out the groups in this width. */
export function planHeatmap(groups: readonly Group[], gpusOf: (number: number) => number, width: number): HeatmapPlan {
  const unplaced = groups.flatMap((group) => splitGroup(group, gpusOf));
  const lines = unplaced.reduce((sum, column) => sum + column.lines.length, 0);
  const pitch = lines <= 60 ? LARGE : lines <= 300 ? MIDDLE : SMALL;
  const step = pitch * SQUARES_PER_LINE + GAP;
  const abreast = Math.max(1, Math.floor((width + GAP) / step));
  const columns: Column[] = [];
  let top = 0;
  for (let at = 0; at < unplaced.length; at += abreast) {
    const band = unplaced.slice(at, at + abreast);
    band.forEach((column, place) => columns.push({ ...column, left: place * step, top: top + CAPTION_HEIGHT }));
    top += CAPTION_HEIGHT + GAP + pitch * Math.max(...band.map((column) => column.lines.length));
  }
  return { pitch, columns, abreast, height: top };
}

/** The square at a point; `null` between squares. */
export function squareAt({ pitch, columns }: HeatmapPlan, x: number, y: number): Square | null {
  for (const [column, { left, top, lines }] of columns.entries()) {
    const line = Math.floor((y - top) / pitch);
    const place = Math.floor((x - left) / pitch);
    const found = x >= left && y >= top ? lines[line] : undefined;
    if (found && place < found.count) return { column, line, place };
  }
  return null;
}

/** The square after an arrow key; the same at the edge, `null` for any other key. */
export function nextSquare({ columns, abreast }: HeatmapPlan, from: Square, key: string): Square | null {
  const count = (square: Square): number => columns[square.column]?.lines[square.line]?.count ?? 0;
  const clamp = (column: number, line: number, place: number): Square => {
    const lines = columns[column]?.lines ?? [];
    if (lines.length === 0) return from;
    const inside = Math.max(0, Math.min(line, lines.length - 1));
    return { column, line: inside, place: Math.max(0, Math.min(place, (lines[inside]?.count ?? 1) - 1)) };
  };
  const { column, line, place } = from;
  switch (key) {
    case "ArrowRight":
      return place + 1 < count(from) ? { ...from, place: place + 1 } : clamp(column + 1, line, 0);
    case "ArrowLeft":
      return place > 0 ? { ...from, place: place - 1 } : clamp(column - 1, line, SQUARES_PER_LINE);
    case "ArrowDown":
      return line + 1 < (columns[column]?.lines.length ?? 0) ? clamp(column, line + 1, place) : clamp(column + abreast, 0, place);
    case "ArrowUp":
      return line > 0 ? clamp(column, line - 1, place) : clamp(column - abreast, MAX_LINES, place);
    case "Home":
      return clamp(0, 0, 0);
    case "End":
      return clamp(columns.length - 1, MAX_LINES, SQUARES_PER_LINE);
    default:
      return null;
  }
}

function splitGroup({ name, numbers }: Group, gpusOf: (number: number) => number): Pick<Column, "name" | "continued" | "lines">[] {
  const lines = numbers.flatMap((number) => linesOf(number, gpusOf(number)));
  const parts: Pick<Column, "name" | "continued" | "lines">[] = [];
  for (let at = 0; at < lines.length; at += MAX_LINES) {
    parts.push({ name, continued: at > 0, lines: lines.slice(at, at + MAX_LINES) });
  }
  return parts;
}

function linesOf(number: number, gpus: number): Line[] {
  const lines: Line[] = [];
  for (let first = 0; first < gpus; first += SQUARES_PER_LINE) lines.push({ number, first, count: Math.min(SQUARES_PER_LINE, gpus - first) });
  return lines;
}
