import { expect, it } from "vitest";
import { type Entry, matchEntries } from "../../src/state/palette";

const entry = (kind: Entry["kind"], name: string): Entry => ({ kind, name, run: () => undefined });
const ENTRIES = [entry("view", "People"), entry("node", "gpu01"), entry("node", "big-gpu"), entry("person", "gpriya"), entry("action", "Pause updates")];

it("finds by every word, names that start with it first", () => {
  expect(matchEntries(ENTRIES, "gpu").map(({ name }) => name)).toEqual(["gpu01", "big-gpu"]);
  expect(matchEntries(ENTRIES, "big node").map(({ name }) => name)).toEqual(["big-gpu"]);
  expect(matchEntries(ENTRIES, "nothing here")).toEqual([]);
  expect(matchEntries(ENTRIES, "")).toHaveLength(5);
});
