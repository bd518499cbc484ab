import { expect, it } from "vitest";
import { axisMax, bridgeGaps, extent, isolatedPoints, maxGap, timestamps } from "../../src/state/series";

const _ = null;
const over = undefined;

it("every figure has its moment", () => {
  expect(timestamps(1000, 10, 3)).toEqual([1000, 1010, 1020]);
});

it("a hole of a node that reports seldom is passed over, and a longer one stays a hole", () => {
  expect(bridgeGaps([1, _, _, 4, _, _, _, 8], 2)).toEqual([1, over, over, 4, _, _, _, 8]);
});

it("before the first figure and after the last nothing is passed over", () => {
  expect(bridgeGaps([_, 2, 3, _], 9)).toEqual([_, 2, 3, _]);
  expect(bridgeGaps([_, _], 9)).toEqual([_, _]);
});

it("zero is a figure and no hole", () => {
  expect(bridgeGaps([0, _, 0], 1)).toEqual([0, over, 0]);
});

it("a node is given twice its pace before a hole is a hole", () => {
  expect([null, 1, 10, 60].map((pace) => maxGap(pace, 10))).toEqual([1, 1, 2, 12]);
});

it("a value that no line can reach is drawn as a point", () => {
  expect(isolatedPoints([1, _, 3, 4, _, 6])).toEqual([0, 5]);
  expect(isolatedPoints([_, 2, over, over, 5, _, 7])).toEqual([6]);
  expect(isolatedPoints([1])).toEqual([0]);
});

it("the top of a plot is what is expected, or a round number that nothing is above", () => {
  expect(axisMax([[300, 650]], 700)).toBe(700);
  expect(axisMax([[12, 341.5, null]], 1)).toBe(400);
  expect(axisMax([[0], [_]], 1)).toBe(1);
  expect(axisMax([[83]], 60)).toBe(100);
});

it("of what is not known there is no least and no most", () => {
  expect(extent([_, 3, 1, _, 2])).toEqual({ min: 1, max: 3 });
  expect(extent([_, _])).toBe(null);
});
