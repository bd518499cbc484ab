import { expect, it } from "vitest";
import { columnCount, isWorthShowing, layers, nearestMoment } from "../../src/state/ribbon";

it("the ribbon stacks GPUs in use and leaves out free ones", () => {
  const moments = [0, 10].map((at) => ({ at, nodes: 1, nodes_reporting: 1, gpus: { busy: 2, held: 1, free: 1 } }));
  const drawn = layers({ start: 0, end: 20, moments, gaps: [] }, { width: 100, height: 20, columns: 2 });
  expect(drawn.map(({ state }) => state)).toEqual(["busy", "held", "ghost", "broken"]);
  expect(drawn[0]?.path).toBe("M0.0 20.0V10.0H50.0V20.0ZM50.0 20.0V10.0H100.0V20.0Z");
  expect(drawn[1]?.path.startsWith("M0.0 10.0V5.0")).toBe(true);
  expect(drawn[3]?.path).toBe("");
  expect(nearestMoment({ start: 0, end: 20, moments, gaps: [] }, 14)?.at).toBe(10);
});

it("a ribbon needs two hours, and has no column finer than the grain", () => {
  expect([isWorthShowing(null, 9000), isWorthShowing(1000, 8000), isWorthShowing(1000, 8200)]).toEqual([false, false, true]);
  const grains = [{ grain_seconds: 10, keep_seconds: 86_400 }, { grain_seconds: 3600, keep_seconds: 9e6 }];
  expect(columnCount({ start: 0, end: 7200 }, grains, 7200)).toBe(24);
  expect(columnCount({ start: 0, end: 86_400 * 3 }, grains, 86_400 * 3)).toBe(72);
  expect(columnCount({ start: 0, end: 86_400 * 30 }, grains, 86_400 * 30)).toBe(168);
});
