// The layout of the heat map: one line of squares per node, one column of lines per group, as large as the window allows.
// The few GPUs that a user has on each of many nodes are packed: lines that are mostly empty would make squares tiny.

import type { Group } from "./arrange";

export const SQUARES_PER_LINE = 8;
const [MIN_PITCH, MIN_TOUCH_PITCH, MAX_PITCH] = [3, 7, 80];
const NARROW_WIDTH = 600;
const MIN_LINES = 8;
/** From this size on, lines have the name of their node. */
const NAMED_PITCH = 18;
const NAME_WIDTH = 84;
const SQUARES_PER_PACKED_LINE = 16;

/** Up to eight GPUs of a node, or up to sixteen of several nodes. */
export interface Line {
  /** The node, or the first of several. */
  readonly number: number;
  /** The node of each GPU, if there are several. */
  readonly numbers?: readonly number[];
  /** Their positions among the GPUs of their node. */
  readonly gpus: readonly number[];
  /** Whether a line of the same node in the same group is above it. */
  readonly continued: boolean;
}

/** A column: the position of its first square, and its lines. `continued` if its group started in an earlier column. */
export interface Column {
  readonly name: string | null;
  readonly continued: boolean;
  /** How many nodes its group has, in all its columns. */
  readonly nodes: number;
  readonly left: number;
  readonly top: number;
  /** The columns side by side are a band; the first is 0. */
  readonly band: number;
  /** The number of squares of its longest line. */
  readonly squares: number;
  readonly lines: readonly Line[];
}

export interface HeatmapPlan {
  /** The distance from one square to the next. */
  readonly pitch: number;
  readonly columns: readonly Column[];
  readonly captionHeight: number;
  /** The room for the names of nodes left of the squares. */
  readonly nameWidth: number;
  readonly height: number;
}

/** The position of a square: column, line in the column, index in the line. */
export interface Square {
  readonly column: number;
  readonly line: number;
  readonly place: number;
}

interface NodeLines {
  readonly name: string | null;
  readonly nodes: number;
  readonly lines: readonly Line[];
}

/** In how many columns large groups may be split, and by how much larger squares must become by that. */
const PARTS: readonly number[] = [2, 3, 4, 6, 8, 12];
const MIN_GAIN = 1.25;
/** A rack is better in one piece, a user's GPUs are not. */
const MIN_PACKED_GAIN = 1.1;

/** Lay out the groups with the largest squares that fit into this box; the smallest, and a longer page, if none do. */
export function planHeatmap(
  groups: readonly Group[],
  gpusOf: (number: number, group: string | null) => readonly number[],
  width: number,
  height: number,
  /** Whether GPUs of several nodes may share a line, where lines have no names. */
  isPackable = false,
): HeatmapPlan {
  const all = groups.map(({ name, numbers }) => ({ name, nodes: numbers.length, lines: numbers.flatMap((number) => linesOf(number, gpusOf(number, name))) }));
  const plan = bestPlan(all, width, height);
  return isPackable && plan.nameWidth === 0 ? bestPlan(all.map(packed), width, height, MIN_PACKED_GAIN) : plan;
}

function bestPlan(all: readonly NodeLines[], width: number, height: number, minGain = MIN_GAIN): HeatmapPlan {
  let best = largestPlan(all, width, height, Infinity);
  const longest = Math.max(0, ...all.map(({ lines }) => lines.length));
  for (const parts of PARTS) {
    const most = Math.ceil(longest / parts);
    const plan = most < MIN_LINES ? best : largestPlan(all, width, height, most);
    if (plan.height <= height && plan.pitch >= minGain * best.pitch) best = plan;
  }
  return best;
}

/** The plan with the largest squares of which no column has more than `most` lines. */
function largestPlan(all: readonly NodeLines[], width: number, height: number, most: number): HeatmapPlan {
  const min = width < NARROW_WIDTH ? MIN_TOUCH_PITCH : MIN_PITCH;
  let best = layOut(all, min, width, height, most);
  let [low, high] = [min + 1, MAX_PITCH];
  while (low <= high) {
    const pitch = (low + high) >> 1;
    const plan = layOut(all, pitch, width, height, most);
    if (plan.height <= height && fitsAcross(plan, width)) [best, low] = [plan, pitch + 1];
    else high = pitch - 1;
  }
  return best;
}

function layOut(groups: readonly NodeLines[], pitch: number, width: number, height: number, most: number): HeatmapPlan {
  const captionHeight = pitch < 9 ? 13 : 18;
  const gap = Math.max(5, Math.min(16, pitch));
  const nameWidth = pitch < NAMED_PITCH ? 0 : NAME_WIDTH;
  const maxLines = Math.max(MIN_LINES, Math.min(most, Math.floor((height - captionHeight) / pitch)));
  const columns: Column[] = [];
  let [left, top, band, tallest] = [0, 0, 0, 0];
  for (const column of groups.flatMap((group) => split(group, maxLines))) {
    const wide = nameWidth + column.squares * pitch;
    if (left > 0 && left + wide > width) {
      top += captionHeight + tallest * pitch + gap;
      [left, tallest, band] = [0, 0, band + 1];
    }
    columns.push({ ...column, left: left + nameWidth, top: top + captionHeight, band });
    left += wide + gap;
    tallest = Math.max(tallest, column.lines.length);
  }
  return { pitch, columns, captionHeight, nameWidth, height: top + captionHeight + tallest * pitch };
}

function fitsAcross({ pitch, columns }: HeatmapPlan, width: number): boolean {
  return columns.every(({ left, squares }) => left + squares * pitch <= width);
}

/** The square at a point; `null` between squares. */
export function squareAt({ pitch, columns }: HeatmapPlan, x: number, y: number): Square | null {
  for (const [column, { left, top, lines }] of columns.entries()) {
    const line = Math.floor((y - top) / pitch);
    const place = Math.floor((x - left) / pitch);
    const found = x >= left && y >= top ? lines[line] : undefined;
    if (found && place < found.gpus.length) return { column, line, place };
  }
  return null;
}

/** The square after an arrow key; the same at the edge, `null` for any other key. */
export function nextSquare({ columns }: HeatmapPlan, from: Square, key: string): Square | null {
  const count = (square: Square): number => columns[square.column]?.lines[square.line]?.gpus.length ?? 0;
  const clamp = (column: number, line: number, place: number): Square => {
    const lines = columns[column]?.lines ?? [];
    if (lines.length === 0) return from;
    const inside = Math.max(0, Math.min(line, lines.length - 1));
    return { column, line: inside, place: Math.max(0, Math.min(place, (lines[inside]?.gpus.length ?? 1) - 1)) };
  };
  const { column, line, place } = from;
  switch (key) {
    case "ArrowRight":
      return place + 1 < count(from) ? { ...from, place: place + 1 } : clamp(column + 1, line, 0);
    case "ArrowLeft":
      return place > 0 ? { ...from, place: place - 1 } : clamp(column - 1, line, Infinity);
    case "ArrowDown":
      return line + 1 < (columns[column]?.lines.length ?? 0) ? clamp(column, line + 1, place) : clamp(beside(columns, column, 1), 0, place);
    case "ArrowUp":
      return line > 0 ? clamp(column, line - 1, place) : clamp(beside(columns, column, -1), Infinity, place);
    case "Home":
      return clamp(0, 0, 0);
    case "End":
      return clamp(columns.length - 1, Infinity, Infinity);
    default:
      return null;
  }
}

/** The column of the next or previous band that is nearest to this one; -1 if there is none. */
function beside(columns: readonly Column[], from: number, step: 1 | -1): number {
  const { band = 0, left = 0 } = columns[from] ?? {};
  const distance = (at: number): number => (columns[at]?.band === band + step ? Math.abs((columns[at]?.left ?? 0) - left) : Infinity);
  const best = columns.reduce((nearest, _, at) => (distance(at) < distance(nearest) ? at : nearest), 0);
  return distance(best) === Infinity ? -1 : best;
}

/** A group as columns of equal length, none with more lines than `maxLines`. */
function split({ name, nodes, lines }: NodeLines, maxLines: number): Omit<Column, "left" | "top" | "band">[] {
  const length = Math.ceil(lines.length / Math.ceil(lines.length / maxLines));
  const squares = lines.reduce((most, { gpus }) => Math.max(most, gpus.length), 1);
  const parts: Omit<Column, "left" | "top" | "band">[] = [];
  for (let at = 0; at < lines.length; at += length) parts.push({ name, nodes, continued: at > 0, squares, lines: lines.slice(at, at + length) });
  return parts;
}

function linesOf(number: number, gpus: readonly number[]): Line[] {
  if (gpus.length <= SQUARES_PER_LINE) return gpus.length ? [{ number, gpus, continued: false }] : [];
  const lines: Line[] = [];
  for (let at = 0; at < gpus.length; at += SQUARES_PER_LINE) lines.push({ number, gpus: gpus.slice(at, at + SQUARES_PER_LINE), continued: at > 0 });
  return lines;
}

/** The same squares in as few lines as possible. */
function packed(group: NodeLines): NodeLines {
  const numbers = group.lines.flatMap(({ number, gpus }) => gpus.map(() => number));
  const gpus = group.lines.flatMap((line) => line.gpus);
  const lines: Line[] = [];
  for (let at = 0; at < gpus.length; at += SQUARES_PER_PACKED_LINE) {
    const end = at + SQUARES_PER_PACKED_LINE;
    lines.push({ number: numbers[at] ?? -1, numbers: numbers.slice(at, end), gpus: gpus.slice(at, end), continued: false });
  }
  return { ...group, lines };
}

/** The node of a GPU of a line. */
export function nodeNumber({ number, numbers }: Line, place: number): number {
  return numbers?.[place] ?? number;
}

/** The first and the last GPU of a line that are of the same node as this one. */
export function sameNode(line: Line, place: number): readonly [first: number, last: number] {
  let [first, last] = [place, place];
  while (first > 0 && nodeNumber(line, first - 1) === nodeNumber(line, place)) first -= 1;
  while (last + 1 < line.gpus.length && nodeNumber(line, last + 1) === nodeNumber(line, place)) last += 1;
  return [first, last];
}

const WHOLE_NODES: (readonly number[])[] = [];

/** The positions of all GPUs of a node with this many. */
export function allGpus(count: number): readonly number[] {
  return (WHOLE_NODES[count] ??= [...Array(count).keys()]);
}
