// Keyboard navigation in the grid.

/** A row of the grid and a column in it: 0 is the node's name, 1 the first GPU. */
export interface GridPosition {
  readonly row: number;
  readonly column: number;
}

export type RowCells = readonly (unknown | null)[];
const PAGE_ROWS = 10;

/** The position after a key; `null` for any other key. Empty cells are skipped. */
export function moveFocus(rows: readonly RowCells[], columns: number, at: GridPosition, key: string): GridPosition | null {
  const cells = rows[at.row] ?? [];
  switch (key) {
    case "ArrowRight":
      return { ...at, column: following(cells, at.column) };
    case "ArrowLeft":
      return { ...at, column: preceding(cells, at.column - 1) };
    case "Home":
      return { ...at, column: 0 };
    case "End":
      return { ...at, column: preceding(cells, cells.length) };
    case "Control+Home":
      return { row: 0, column: 0 };
    case "Control+End":
      return { row: rows.length - 1, column: preceding(rows.at(-1) ?? [], rows.at(-1)?.length ?? 0) };
    case "ArrowDown":
      return vertical(rows, columns, at, 1);
    case "ArrowUp":
      return vertical(rows, columns, at, -1);
    case "PageDown":
      return toRow(rows, columns, at, Math.min(rows.length - 1, at.row + PAGE_ROWS), 0);
    case "PageUp":
      return toRow(rows, columns, at, Math.max(0, at.row - PAGE_ROWS), 0);
    default:
      return null;
  }
}

/** One line down or up: within the node if its GPUs take several lines, otherwise to the next node. */
function vertical(rows: readonly RowCells[], columns: number, at: GridPosition, step: 1 | -1): GridPosition {
  const cells = rows[at.row] ?? [];
  const within = at.column + step * columns;
  if (at.column > 0 && within > 0 && within <= cells.length) {
    const column = preceding(cells, within);
    if (column > at.column || step < 0) return { ...at, column };
  }
  const row = at.row + step;
  const next = rows[row];
  if (!next) return at;
  return toRow(rows, columns, at, row, step > 0 ? 0 : Math.ceil(next.length / columns) - 1);
}

function toRow(rows: readonly RowCells[], columns: number, at: GridPosition, row: number, line: number): GridPosition {
  const inLine = at.column === 0 ? 0 : ((at.column - 1) % columns) + 1;
  return { row, column: inLine === 0 ? 0 : preceding(rows[row] ?? [], line * columns + inLine) };
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
