import { expect, it } from "vitest";
import { axisMax, bridgeGaps, extent, isolatedPoints, maxGap, timestamps } from "../../src/state/series";

const _ = null;
const over = undefined;

it("every value has a timestamp", () => {
  expect(timestamps(1000, 10, 3)).toEqual([1000, 1010, 1020]);
});

it("a short gap is bridged, and a longer one stays a gap", () => {
  expect(bridgeGaps([1, _, _, 4, _, _, _, 8], 2)).toEqual([1, over, over, 4, _, _, _, 8]);
});

it("nothing is bridged before the first and after the last value", () => {
  expect(bridgeGaps([_, 2, 3, _], 9)).toEqual([_, 2, 3, _]);
  expect(bridgeGaps([_, _], 9)).toEqual([_, _]);
});

it("zero is a value and not a gap", () => {
  expect(bridgeGaps([0, _, 0], 1)).toEqual([0, over, 0]);
});

it("a gap is longer than two reporting intervals", () => {
  expect([null, 1, 10, 60].map((pace) => maxGap(pace, 10))).toEqual([1, 1, 2, 12]);
});

it("a value without neighbours is drawn as a point", () => {
  expect(isolatedPoints([1, _, 3, 4, _, 6])).toEqual([0, 5]);
  expect(isolatedPoints([_, 2, over, over, 5, _, 7])).toEqual([6]);
  expect(isolatedPoints([1])).toEqual([0]);
});

it("the top of a plot is the expected maximum, or a round number above all values", () => {
  expect(axisMax([[300, 650]], 700)).toBe(700);
  expect(axisMax([[12, 341.5, null]], 1)).toBe(400);
  expect(axisMax([[0], [_]], 1)).toBe(1);
  expect(axisMax([[83]], 60)).toBe(100);
});

it("unknown values have no extent", () => {
  expect(extent([_, 3, 1, _, 2])).toEqual({ min: 1, max: 3 });
  expect(extent([_, _])).toBe(null);
});
