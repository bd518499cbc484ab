import { expect, test } from "vitest";
import { difference, read, written } from "../src/state/labels";

test("labels are written and read back", () => {
  const labels = { rack: "a", room: "2 b", url: "x=y" };
  expect(read(written(labels))).toEqual(labels);
  expect(read(" rack = a ,, ")).toEqual({ rack: "a" });
  expect(read("")).toEqual({});
});

test("what is no label is said in words", () => {
  expect(read("rack")).toContain("rack=a");
  expect(read("rack=")).toContain("no value");
  expect(read("a b=c")).toContain("no name");
});

test("only what is another is asked for, and what is gone is given back", () => {
  expect(difference({ a: "1", b: "2", c: "3" }, { a: "1", b: "4", d: "5" })).toEqual({ c: "", b: "4", d: "5" });
  expect(difference({ a: "1" }, { a: "1" })).toEqual({});
});
