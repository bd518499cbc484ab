// Keyboard navigation in the grid.

/** A node of the grid and a column in it: 0 is the node's name, 1 the first GPU. */
export interface GridPosition {
  readonly row: number;
  readonly column: number;
}

export type RowCells = readonly (unknown | null)[];

/** The nodes of the grid in their lines; several may stand side by side. */
export interface GridShape {
  /** The rows of each line, from left to right. */
  readonly lines: readonly (readonly number[])[];
  /** How many GPUs a node of this line shows side by side. */
  places(line: number): number;
  /** The GPUs of a node; `null` is an empty place. */
  cells(row: number): RowCells;
}

const PAGE_LINES = 10;

/** The position after a key; `null` for any other key. Empty cells are skipped. */
export function moveFocus(shape: GridShape, at: GridPosition, key: string): GridPosition | null {
  const cells = shape.cells(at.row);
  const last = shape.lines.at(-1)?.at(-1) ?? 0;
  switch (key) {
    case "ArrowRight":
      return right(shape, at);
    case "ArrowLeft":
      return left(shape, at);
    case "Home":
      return { ...at, column: 0 };
    case "End":
      return { ...at, column: preceding(cells, cells.length) };
    case "Control+Home":
      return { row: 0, column: 0 };
    case "Control+End":
      return { row: last, column: preceding(shape.cells(last), shape.cells(last).length) };
    case "ArrowDown":
      return vertical(shape, at, 1);
    case "ArrowUp":
      return vertical(shape, at, -1);
    case "PageDown":
      return toLine(shape, at, PAGE_LINES, "first");
    case "PageUp":
      return toLine(shape, at, -PAGE_LINES, "first");
    default:
      return null;
  }
}

function lineOf({ lines }: GridShape, row: number): number {
  return lines.findIndex((rows) => row <= (rows.at(-1) ?? -1));
}

/** The next GPU, or the name of the next node of the line. */
function right(shape: GridShape, at: GridPosition): GridPosition {
  const column = following(shape.cells(at.row), at.column);
  const isBeside = shape.lines[lineOf(shape, at.row)]?.includes(at.row + 1);
  return column === at.column && isBeside ? { row: at.row + 1, column: 0 } : { ...at, column };
}

/** The previous GPU or the name, or the last GPU of the previous node of the line. */
function left(shape: GridShape, at: GridPosition): GridPosition {
  if (at.column > 0) return { ...at, column: preceding(shape.cells(at.row), at.column - 1) };
  if (!shape.lines[lineOf(shape, at.row)]?.includes(at.row - 1)) return at;
  const cells = shape.cells(at.row - 1);
  return { row: at.row - 1, column: preceding(cells, cells.length) };
}

/** One line down or up: within the node if its GPUs take several lines, otherwise to the node below or above. */
function vertical(shape: GridShape, at: GridPosition, step: 1 | -1): GridPosition {
  const cells = shape.cells(at.row);
  const within = at.column + step * shape.places(lineOf(shape, at.row));
  if (at.column > 0 && within > 0 && within <= cells.length) {
    const column = preceding(cells, within);
    if (column > at.column || step < 0) return { ...at, column };
  }
  return toLine(shape, at, step, step > 0 ? "first" : "last");
}

/** The node at the same place of another line; in the first or the last line of its GPUs. */
function toLine(shape: GridShape, at: GridPosition, step: number, part: "first" | "last"): GridPosition {
  const line = lineOf(shape, at.row);
  const target = Math.max(0, Math.min(shape.lines.length - 1, line + step));
  const rows = shape.lines[target] ?? [];
  if (target === line) return at;
  const beside = shape.lines[line]?.indexOf(at.row) ?? 0;
  const row = rows[Math.min(beside, rows.length - 1)] ?? at.row;
  const [cells, places] = [shape.cells(row), shape.places(target)];
  const inLine = at.column === 0 ? 0 : Math.min(((at.column - 1) % shape.places(line)) + 1, places);
  const skipped = part === "first" ? 0 : Math.ceil(cells.length / places) - 1;
  return { row, column: inLine === 0 ? 0 : preceding(cells, skipped * places + inLine) };
}

function following(cells: RowCells, from: number): number {
  for (let column = from + 1; column <= cells.length; column += 1) if (cells[column - 1] != null) return column;
  return from;
}

/** This column, or the nearest before it that is not empty, or the name. */
function preceding(cells: RowCells, from: number): number {
  for (let column = from; column > 0; column -= 1) if (cells[column - 1] != null) return column;
  return 0;
}
