import { describe, expect, it } from "vitest";
import { type GridPosition, type GridShape, moveFocus } from "../../src/state/gridNavigation";

describe("keyboard navigation", () => {
  const wide = Array.from({ length: 16 }, (_, at) => (at < 12 ? at : null));
  const rows = [[0, 1, 2, 3], [0, null, 2, null], wide, [null, null, null, null]];
  const shapeOf = (cells: (number | null)[][], lines = cells.map((_, row) => [row])): GridShape => ({
    lines,
    places: (line) => (lines[line]?.[0] === 2 ? 8 : 4),
    cells: (row) => cells[row] ?? [],
  });
  const to = (row: number, column: number, key: string): GridPosition | null => moveFocus(shapeOf(rows), { row, column }, key);

  it("skips empty cells and stops at the ends", () => {
    expect(to(1, 1, "ArrowRight")).toEqual({ row: 1, column: 3 });
    expect(to(1, 3, "ArrowRight")).toEqual({ row: 1, column: 3 });
    expect(to(1, 1, "ArrowLeft")).toEqual({ row: 1, column: 0 });
    expect(to(0, 0, "ArrowUp")).toEqual({ row: 0, column: 0 });
    expect(to(0, 2, "End")).toEqual({ row: 0, column: 4 });
  });

  it("moves down in the same column, or to the nearest cell left of it", () => {
    expect(to(0, 3, "ArrowDown")).toEqual({ row: 1, column: 3 });
    expect(to(0, 2, "ArrowDown")).toEqual({ row: 1, column: 1 });
    expect(to(0, 0, "ArrowDown")).toEqual({ row: 1, column: 0 });
  });

  it("moves through the lines of a node with many GPUs", () => {
    expect(to(2, 3, "ArrowDown")).toEqual({ row: 2, column: 11 });
    expect(to(2, 11, "ArrowUp")).toEqual({ row: 2, column: 3 });
    expect(to(2, 11, "ArrowDown")).toEqual({ row: 3, column: 0 });
  });

  it("jumps to the first node and to the last GPU", () => {
    expect(to(2, 3, "Control+Home")).toEqual({ row: 0, column: 0 });
    expect(to(0, 1, "Control+End")).toEqual({ row: 3, column: 0 });
    expect(moveFocus(shapeOf(rows.slice(0, 3)), { row: 0, column: 0 }, "Control+End")).toEqual({ row: 2, column: 12 });
  });

  it("goes on to the next node of the line, and down to the one below", () => {
    const shape = shapeOf([[0, 1], [0, 1], [0, 1], [0, 1], [0, 1]], [[0, 1], [2, 3], [4]]);
    const go = (row: number, column: number, key: string): GridPosition | null => moveFocus(shape, { row, column }, key);
    expect(go(0, 2, "ArrowRight")).toEqual({ row: 1, column: 0 });
    expect(go(1, 2, "ArrowRight")).toEqual({ row: 1, column: 2 });
    expect(go(1, 0, "ArrowLeft")).toEqual({ row: 0, column: 2 });
    expect(go(1, 1, "ArrowDown")).toEqual({ row: 3, column: 1 });
    expect(go(3, 1, "ArrowDown")).toEqual({ row: 4, column: 1 });
    expect(go(3, 2, "ArrowUp")).toEqual({ row: 1, column: 2 });
  });

  it("ignores other keys", () => {
    expect(to(0, 1, "x")).toBeNull();
    expect(to(0, 1, "Control+c")).toBeNull();
  });
});
