import { describe, expect, it } from "vitest";
import { offsetsOf, visibleItems } from "../../src/state/virtualList";

describe("visible items", () => {
  const offsets = offsetsOf(Array.from({ length: 1000 }, (_, at) => ({ key: String(at), height: 44 })));

  it("are those that overlap the viewport", () => {
    expect(offsets.at(-1)).toBe(44_000);
    expect(visibleItems(offsets, 440, 880)).toEqual({ from: 10, to: 20 });
    expect(visibleItems(offsets, 441, 881)).toEqual({ from: 10, to: 21 });
    expect(visibleItems(offsets, -100, 10)).toEqual({ from: 0, to: 1 });
  });

  it("are none above or below the list, or in an empty one", () => {
    for (const [top, bottom] of [[-900, -1], [90_000, 91_000]] as const) {
      const { from, to } = visibleItems(offsets, top, bottom);
      expect(to - from).toBe(0);
    }
    expect(visibleItems(offsetsOf([]), 0, 900)).toEqual({ from: 0, to: 0 });
  });
});
