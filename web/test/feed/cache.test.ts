import { describe, expect, it, vi } from "vitest";
import { cached } from "../../src/feed/cache";

describe("an answer that is fresh", () => {
  it("is not asked for again, and one that is not is", () => {
    const clock = vi.spyOn(performance, "now").mockReturnValue(0);
    const asked = vi.fn((subject: string) => Promise.resolve(subject));
    const look = cached(1000, asked);
    void [look("a"), look("a"), look("b")];
    expect(asked).toHaveBeenCalledTimes(2);
    clock.mockReturnValue(1001);
    void look("a");
    expect(asked).toHaveBeenCalledTimes(3);
    clock.mockRestore();
  });
});
