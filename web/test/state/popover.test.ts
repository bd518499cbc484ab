import { describe, expect, it } from "vitest";
import { placePopover } from "../../src/state/popover";

describe("the card", () => {
  const view = { left: 0, top: 0, width: 1000, height: 800 };
  const card = { width: 400, height: 300 };
  const overlaps = (cell: { left: number; top: number; width: number; height: number }): boolean => {
    const { left, top } = placePopover(cell, card, view);
    return left < cell.left + cell.width && left + card.width > cell.left && top < cell.top + cell.height && top + card.height > cell.top;
  };

  it("is below the cell and aligned with its right edge", () => {
    expect(placePopover({ left: 600, top: 100, width: 100, height: 40 }, card, view)).toEqual({ left: 300, top: 146 });
  });

  it("is above the cell at the bottom, and inside the viewport at the left edge", () => {
    expect(placePopover({ left: 10, top: 700, width: 100, height: 40 }, card, view)).toEqual({ left: 8, top: 394 });
  });

  it("never covers its anchor", () => {
    for (let left = 0; left < 950; left += 50) {
      for (let top = 0; top < 780; top += 20) expect(overlaps({ left, top, width: 100, height: 40 })).toBe(false);
    }
    const low = { ...view, height: 320 };
    expect(placePopover({ left: 600, top: 150, width: 100, height: 40 }, card, low).left).toBe(194);
  });
});
