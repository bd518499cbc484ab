import { describe, expect, it } from "vitest";
import { placePopover } from "../src/state/popover";
import { type Square, nextSquare, planHeatmap, squareAt } from "../src/state/heatmap";
import { type ListItem, visibleItems } from "../src/state/virtualList";
import { type GridPosition, moveFocus } from "../src/state/gridNavigation";

describe("which blocks are drawn", () => {
  const blocks: ListItem[] = Array.from({ length: 1000 }, (_, at) => ({ key: String(at), height: 44 }));

  it("are those that the window touches, and the rest is room", () => {
    expect(visibleItems(blocks, 440, 880)).toEqual({ from: 10, to: 20, above: 440, below: 980 * 44 });
  });

  it("are none below or above all of them", () => {
    for (const [top, bottom] of [[-900, -1], [90_000, 91_000]] as const) {
      const { from, to, above, below } = visibleItems(blocks, top, bottom);
      expect([to - from, above + below]).toEqual([0, 44_000]);
    }
  });
});

describe("walking the grid", () => {
  const wide = Array.from({ length: 16 }, (_, at) => (at < 12 ? at : null));
  const rows = [[0, 1, 2, 3], [0, null, 2, null], wide, [null, null, null, null]];
  const to = (row: number, place: number, key: string): GridPosition | null => moveFocus(rows, row === 2 ? 8 : 4, { row, place }, key);

  it("steps over empty places and stops at the ends", () => {
    expect(to(1, 1, "ArrowRight")).toEqual({ row: 1, place: 3 });
    expect(to(1, 3, "ArrowRight")).toEqual({ row: 1, place: 3 });
    expect(to(1, 1, "ArrowLeft")).toEqual({ row: 1, place: 0 });
    expect(to(0, 0, "ArrowUp")).toEqual({ row: 0, place: 0 });
    expect(to(0, 2, "End")).toEqual({ row: 0, place: 4 });
  });

  it("goes down to the same column, or to what is left of it", () => {
    expect(to(0, 3, "ArrowDown")).toEqual({ row: 1, place: 3 });
    expect(to(0, 2, "ArrowDown")).toEqual({ row: 1, place: 1 });
    expect(to(0, 0, "ArrowDown")).toEqual({ row: 1, place: 0 });
  });

  it("goes through the lines of a node with many GPUs", () => {
    expect(to(2, 3, "ArrowDown")).toEqual({ row: 2, place: 11 });
    expect(to(2, 11, "ArrowUp")).toEqual({ row: 2, place: 3 });
    expect(to(2, 11, "ArrowDown")).toEqual({ row: 3, place: 0 });
  });

  it("goes to the first node and to the last GPU of all at once", () => {
    expect(to(2, 3, "Control+Home")).toEqual({ row: 0, place: 0 });
    expect(to(0, 1, "Control+End")).toEqual({ row: 3, place: 0 });
    expect(moveFocus(rows.slice(0, 3), 8, { row: 0, place: 0 }, "Control+End")).toEqual({ row: 2, place: 12 });
  });

  it("leaves other keys to others", () => {
    expect(to(0, 1, "x")).toBeNull();
    expect(to(0, 1, "Control+c")).toBeNull();
  });
});

describe("the card", () => {
  const view = { left: 0, top: 0, width: 1000, height: 800 };
  const card = { width: 400, height: 300 };
  const overlaps = (cell: { left: number; top: number; width: number; height: number }): boolean => {
    const { left, top } = placePopover(cell, card, view);
    return left < cell.left + cell.width && left + card.width > cell.left && top < cell.top + cell.height && top + card.height > cell.top;
  };

  it("is below the cell and flush with its right edge", () => {
    expect(placePopover({ left: 600, top: 100, width: 100, height: 40 }, card, view)).toEqual({ left: 300, top: 146 });
  });

  it("is above it at the foot of the window, and stays in the window at its left edge", () => {
    expect(placePopover({ left: 10, top: 700, width: 100, height: 40 }, card, view)).toEqual({ left: 8, top: 394 });
  });

  it("never covers what it is about", () => {
    for (let left = 0; left < 950; left += 50) {
      for (let top = 0; top < 780; top += 20) expect(overlaps({ left, top, width: 100, height: 40 })).toBe(false);
    }
    const low = { ...view, height: 320 };
    expect(placePopover({ left: 600, top: 150, width: 100, height: 40 }, card, low).left).toBe(194);
  });
});

describe("the heat map", () => {
  const groups = [{ name: "r1", numbers: [1, 2, 3] }, { name: "r2", numbers: [4] }];
  const plan = planHeatmap(groups, (number) => (number === 3 ? 12 : 8), 1000);

  it("has a line a node, and another for each eight GPUs more", () => {
    expect(plan.columns.map((column) => column.lines.length)).toEqual([4, 1]);
    expect(plan.columns[0]?.lines[3]).toEqual({ number: 3, first: 8, count: 4 });
  });

  it("finds the square under a point, and none placePopover them", () => {
    const middle = (square: Square): [number, number] => {
      const column = plan.columns[square.column];
      return [(column?.left ?? 0) + (square.place + 0.5) * plan.pitch, (column?.top ?? 0) + (square.line + 0.5) * plan.pitch];
    };
    for (const square of [{ column: 0, line: 0, place: 7 }, { column: 0, line: 3, place: 3 }, { column: 1, line: 0, place: 0 }]) {
      expect(squareAt(plan, ...middle(square))).toEqual(square);
    }
    expect(squareAt(plan, ...middle({ column: 0, line: 3, place: 5 }))).toBeNull();
    expect(squareAt(plan, 3, 3)).toBeNull();
  });

  it("is moveFocus by arrows from column to column", () => {
    expect(nextSquare(plan, { column: 0, line: 0, place: 7 }, "ArrowRight")).toEqual({ column: 1, line: 0, place: 0 });
    expect(nextSquare(plan, { column: 1, line: 0, place: 0 }, "ArrowLeft")).toEqual({ column: 0, line: 0, place: 7 });
    expect(nextSquare(plan, { column: 0, line: 2, place: 6 }, "ArrowDown")).toEqual({ column: 0, line: 3, place: 3 });
    expect(nextSquare(plan, { column: 1, line: 0, place: 7 }, "ArrowDown")).toEqual({ column: 1, line: 0, place: 7 });
    expect(nextSquare(plan, { column: 0, line: 0, place: 0 }, "Enter")).toBeNull();
  });

  it("cuts long groups, so that thousands of nodes stand side by side", () => {
    const many = planHeatmap([{ name: null, numbers: [...Array(10_000).keys()] }], () => 8, 1400);
    expect(Math.max(...many.columns.map((column) => column.lines.length))).toBe(32);
    expect(many.columns.filter((column) => !column.continued)).toHaveLength(1);
    expect(many.abreast).toBe(16);
  });
});
