import { describe, expect, it } from "vitest";
import { type GridPosition, moveFocus } from "../../src/state/gridNavigation";

describe("keyboard navigation", () => {
  const wide = Array.from({ length: 16 }, (_, at) => (at < 12 ? at : null));
  const rows = [[0, 1, 2, 3], [0, null, 2, null], wide, [null, null, null, null]];
  const to = (row: number, place: number, key: string): GridPosition | null => moveFocus(rows, row === 2 ? 8 : 4, { row, column: place }, key);

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
    expect(moveFocus(rows.slice(0, 3), 8, { row: 0, column: 0 }, "Control+End")).toEqual({ row: 2, column: 12 });
  });

  it("ignores other keys", () => {
    expect(to(0, 1, "x")).toBeNull();
    expect(to(0, 1, "Control+c")).toBeNull();
  });
});
