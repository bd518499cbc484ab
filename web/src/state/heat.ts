// The heat map's plan: a line of eight squares is a node, a column of lines a group, columns side by side.

import type { Group } from "./arrange";

export const ACROSS = 8;
const MOST_LINES = 32;
const CAPTION = 18;
const GAP = 16;
const [LARGE, MIDDLE, SMALL] = [22, 14, 9];

/** Up to eight GPUs of a node, from its `first` on. */
export interface Line {
  readonly number: number;
  readonly first: number;
  readonly count: number;
}

/** One column: where its first square is, and its lines. `continued` when its group began before it. */
export interface Column {
  readonly name: string | null;
  readonly continued: boolean;
  readonly left: number;
  readonly top: number;
  readonly lines: readonly Line[];
}

export interface Plan {
  readonly pitch: number;
  readonly columns: readonly Column[];
  /** How many columns stand side by side. */
  readonly abreast: number;
  readonly height: number;
}

/** A square: which column, which of its lines, which place in the line. */
export interface Square {
  readonly column: number;
  readonly line: number;
  readonly place: number;
}

/** The plan of these groups in this width. */
export function planned(groups: readonly Group[], gpusOf: (number: number) => number, width: number): Plan {
  const cut = groups.flatMap((group) => cutUp(group, gpusOf));
  const lines = cut.reduce((sum, column) => sum + column.lines.length, 0);
  const pitch = lines <= 60 ? LARGE : lines <= 300 ? MIDDLE : SMALL;
  const step = pitch * ACROSS + GAP;
  const abreast = Math.max(1, Math.floor((width + GAP) / step));
  const columns: Column[] = [];
  let top = 0;
  for (let at = 0; at < cut.length; at += abreast) {
    const band = cut.slice(at, at + abreast);
    band.forEach((column, place) => columns.push({ ...column, left: place * step, top: top + CAPTION }));
    top += CAPTION + GAP + pitch * Math.max(...band.map((column) => column.lines.length));
  }
  return { pitch, columns, abreast, height: top };
}

/** The square under a point; `null` between them. */
export function squareAt({ pitch, columns }: Plan, x: number, y: number): Square | null {
  for (const [column, { left, top, lines }] of columns.entries()) {
    const line = Math.floor((y - top) / pitch);
    const place = Math.floor((x - left) / pitch);
    const found = x >= left && y >= top ? lines[line] : undefined;
    if (found && place < found.count) return { column, line, place };
  }
  return null;
}

/** Where an arrow key leads from a square; it stays where there is nothing. */
export function nextSquare({ columns, abreast }: Plan, from: Square, key: string): Square | null {
  const count = (square: Square): number => columns[square.column]?.lines[square.line]?.count ?? 0;
  const held = (column: number, line: number, place: number): Square => {
    const lines = columns[column]?.lines ?? [];
    if (lines.length === 0) return from;
    const inside = Math.max(0, Math.min(line, lines.length - 1));
    return { column, line: inside, place: Math.max(0, Math.min(place, (lines[inside]?.count ?? 1) - 1)) };
  };
  const { column, line, place } = from;
  switch (key) {
    case "ArrowRight":
      return place + 1 < count(from) ? { ...from, place: place + 1 } : held(column + 1, line, 0);
    case "ArrowLeft":
      return place > 0 ? { ...from, place: place - 1 } : held(column - 1, line, ACROSS);
    case "ArrowDown":
      return line + 1 < (columns[column]?.lines.length ?? 0) ? held(column, line + 1, place) : held(column + abreast, 0, place);
    case "ArrowUp":
      return line > 0 ? held(column, line - 1, place) : held(column - abreast, MOST_LINES, place);
    case "Home":
      return held(0, 0, 0);
    case "End":
      return held(columns.length - 1, MOST_LINES, ACROSS);
    default:
      return null;
  }
}

function cutUp({ name, numbers }: Group, gpusOf: (number: number) => number): Pick<Column, "name" | "continued" | "lines">[] {
  const lines = numbers.flatMap((number) => linesOf(number, gpusOf(number)));
  const parts: Pick<Column, "name" | "continued" | "lines">[] = [];
  for (let at = 0; at < lines.length; at += MOST_LINES) {
    parts.push({ name, continued: at > 0, lines: lines.slice(at, at + MOST_LINES) });
  }
  return parts;
}

function linesOf(number: number, gpus: number): Line[] {
  const lines: Line[] = [];
  for (let first = 0; first < gpus; first += ACROSS) lines.push({ number, first, count: Math.min(ACROSS, gpus - first) });
  return lines;
}
