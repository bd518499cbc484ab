import { describe, expect, it, vi } from "vitest";
import { cached } from "../../src/feed/cache";

describe("a cached response", () => {
  it("is not requested again until it expires", () => {
    const clock = vi.spyOn(performance, "now").mockReturnValue(0);
    const request = vi.fn((key: string) => Promise.resolve(key));
    const load = cached(1000, request);
    void [load("a"), load("a"), load("b")];
    expect(request).toHaveBeenCalledTimes(2);
    clock.mockReturnValue(1001);
    void load("a");
    expect(request).toHaveBeenCalledTimes(3);
    clock.mockRestore();
  });
});
