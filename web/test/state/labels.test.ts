import { expect, test } from "vitest";
import { diffLabels, labelsText, parseLabels } from "../../src/state/labels";

test("labels are formatted and parsed back", () => {
  const labels = { rack: "a", room: "2 b", url: "x=y" };
  expect(parseLabels(labelsText(labels))).toEqual(labels);
  expect(parseLabels(" rack = a ,, ")).toEqual({ rack: "a" });
  expect(parseLabels("")).toEqual({});
});

test("invalid labels give an error message", () => {
  expect(parseLabels("rack")).toContain("rack=a");
  expect(parseLabels("rack=")).toContain("no value");
  expect(parseLabels("a b=c")).toContain("not a valid label name");
});

test("the diff has changed labels, and resets removed ones", () => {
  expect(diffLabels({ a: "1", b: "2", c: "3" }, { a: "1", b: "4", d: "5" })).toEqual({ c: "", b: "4", d: "5" });
  expect(diffLabels({ a: "1" }, { a: "1" })).toEqual({});
});
