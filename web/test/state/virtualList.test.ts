import { describe, expect, it } from "vitest";
import { type ListItem, visibleItems } from "../../src/state/virtualList";

describe("visible items", () => {
  const blocks: ListItem[] = Array.from({ length: 1000 }, (_, at) => ({ key: String(at), height: 44 }));

  it("are those that overlap the viewport, with padding for the rest", () => {
    expect(visibleItems(blocks, 440, 880)).toEqual({ from: 10, to: 20, above: 440, below: 980 * 44 });
  });

  it("are none above or below the list", () => {
    for (const [top, bottom] of [[-900, -1], [90_000, 91_000]] as const) {
      const { from, to, above, below } = visibleItems(blocks, top, bottom);
      expect([to - from, above + below]).toEqual([0, 44_000]);
    }
  });
});
