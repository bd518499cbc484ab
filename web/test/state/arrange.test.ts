import { describe, expect, it } from "vitest";
import type { State } from "../../src/feed/state";
import type { NodeFiguresDiff, NodePayload } from "../../src/feed/types";
import { type Arrangement, arrange, containsExactly, countFree, countOwned, defaultGrouping, groupings, isInGroup, naturalKey, slots } from "../../src/state/arrange";
import { type Gpu, Fleet } from "../../src/state/fleet";
import { event, gpu, node } from "../builders";

const BY_NAME: Arrangement = { sort: "name", grouping: "none" };

function fleetOf(...nodes: [NodePayload, ...number[]][]): Fleet {
  const fleet = new Fleet();
  const figures = nodes.map(([{ number }, ...busy]): NodeFiguresDiff => [number, 990, null, null, busy.map((percent) => [percent, 0, 30, 60])]);
  fleet.apply("fleet", event({ nodes: nodes.map(([info]) => info), figures }));
  return fleet;
}

function named(number: number, name: string, states: State[] = ["free"], rest: Partial<NodePayload> = {}): NodePayload {
  const gpus = states.map((state, index) => gpu(index, state));
  return { ...node(number, gpus), name, ...rest };
}

function names(fleet: Fleet, choice: Arrangement): string[] {
  const order = arrange(fleet, choice).flatMap((group) => group.numbers);
  return order.map((number) => fleet.nodes.get(number)?.info.name ?? "gone");
}

describe("the order of the nodes", () => {
  it("sorts numbers in names numerically", () => {
    expect(names(fleetOf([named(1, "gpu10")], [named(2, "GPU2")], [named(3, "ada1")]), BY_NAME)).toEqual(["ada1", "GPU2", "gpu10"]);
    expect(naturalKey("gpu2") < naturalKey("gpu10")).toBe(true);
  });

  it("puts nodes with the most free GPUs first, then by name", () => {
    const fleet = fleetOf([named(1, "c", ["busy", "busy"])], [named(2, "b", ["free", "busy"])], [named(3, "a", ["busy", "free"])], [named(4, "d", ["free", "free"])]);
    expect(names(fleet, { ...BY_NAME, sort: "free" })).toEqual(["d", "a", "b", "c"]);
  });

  it("puts the busiest first and unknown ones last", () => {
    const fleet = fleetOf([named(1, "idle"), 0], [named(2, "hard"), 97], [named(3, "silent", ["unknown"], { silent: true }), 99], [named(4, "some"), 40]);
    expect(names(fleet, { ...BY_NAME, sort: "load" })).toEqual(["hard", "some", "idle", "silent"]);
  });

  it("puts what needs attention first: broken, silent, ghost, held", () => {
    const fleet = fleetOf(
      [named(1, "fine", ["busy", "free"])],
      [named(2, "held", ["held", "held"])],
      [named(3, "ghost", ["ghost"])],
      [named(4, "silent", ["unknown"], { silent: true })],
      [named(5, "broken", ["free", "broken"])],
      [named(6, "odd", ["busy"], { warnings: 1 })],
    );
    expect(names(fleet, { ...BY_NAME, sort: "attention" })).toEqual(["broken", "silent", "ghost", "held", "odd", "fine"]);
  });
});

describe("an existing arrangement", () => {
  it("is returned as is if nothing moved, and replaced otherwise", () => {
    const fleet = fleetOf([named(1, "b", ["busy"])], [named(2, "a", ["free"])]);
    const first = arrange(fleet, BY_NAME);
    expect(arrange(fleet, BY_NAME, first)).toBe(first);
    fleet.apply("change", event({ nodes: [named(1, "0", ["busy"])], figures: [[1, 991, null, null, [[1, 2, 3, 4]]]] }));
    expect(arrange(fleet, BY_NAME, first)).toEqual([{ name: null, numbers: [1, 2] }]);
  });
});

describe("groups", () => {
  const racked = fleetOf(
    [named(1, "a", ["free"], { labels: { rack: "r10" } })],
    [named(2, "b", ["busy"], { labels: { rack: "r2", room: "hall" } })],
    [named(3, "c", ["free", "free"])],
  );

  it("are in natural order, with those without a label last", () => {
    expect(arrange(racked, { sort: "name", grouping: "label:rack" })).toEqual([
      { name: "r2", numbers: [2] },
      { name: "r10", numbers: [1] },
      { name: null, numbers: [3] },
    ]);
  });

  it("are ordered by their best node otherwise", () => {
    expect(arrange(racked, { sort: "free", grouping: "label:rack" }).map((group) => group.name)).toEqual([null, "r10", "r2"]);
  });

  it("are by the most common model of a node, and by user its GPUs are filed one by one", () => {
    const mixed = { ...node(1, [gpu(0, "busy", ["mei"]), gpu(1, "busy", ["omar"]), gpu(2, "busy", ["omar"])]), name: "mixed" };
    const fleet = fleetOf([mixed], [named(2, "idle")]);
    expect(arrange(fleet, { sort: "name", grouping: "user" })).toEqual([{ name: "mei", numbers: [1] }, { name: "omar", numbers: [1] }, { name: null, numbers: [2] }]);
    expect(mixed.gpus.map((each) => isInGroup(each, "omar", "user"))).toEqual([false, true, true]);
    expect(mixed.gpus.every((each) => isInGroup(each, "any", "model"))).toBe(true);
    expect(isInGroup(gpu(3, "busy", ["mei", "omar"]), "omar", "user")).toBe(true);
    expect(countOwned(fleet, { name: "omar", numbers: [1] })).toEqual({ gpus: 2, idle: 0, free: 0 });
    expect(arrange(fleet, { sort: "name", grouping: "model" }).map((group) => group.name)).toEqual(["NVIDIA H100 80GB HBM3"]);
  });

  it("exist for every label, with rack as the default", () => {
    expect(groupings(racked)).toEqual(["none", "label:rack", "label:room", "model", "user"]);
    expect(defaultGrouping(racked)).toBe("label:rack");
    expect(defaultGrouping(fleetOf([named(1, "a")]))).toBe("none");
  });

  it("count their free GPUs", () => {
    expect(countFree(racked, [1, 2, 3])).toEqual({ free: 3, gpus: 4 });
  });

  it("are outdated when a node was added or removed", () => {
    const groups = arrange(racked, BY_NAME);
    expect(containsExactly(groups, racked)).toBe(true);
    expect(containsExactly(groups, fleetOf([named(1, "a")], [named(2, "b")], [named(9, "new")]))).toBe(false);
    expect(containsExactly(groups, fleetOf([named(1, "a")]))).toBe(false);
  });
});

describe("slots of a row", () => {
  function places(indices: number[], columns = 8): (number | null)[] {
    const fleet = fleetOf([node(1, indices.map((index) => gpu(index)))]);
    return slots(fleet.nodes.get(1)?.gpus ?? [], columns).map((found: Gpu | null) => found?.info.index ?? null);
  }

  it("follow the indices, so that a missing GPU leaves an empty slot", () => {
    expect(places([0, 1, 3], 4)).toEqual([0, 1, null, 3]);
  });

  it("take as many lines as needed", () => {
    expect(places([...Array(10).keys()])).toHaveLength(16);
    expect(places([])).toHaveLength(8);
  });

  it("are consecutive if the indices are unusable", () => {
    expect(places([900, 901], 4)).toEqual([900, 901, null, null]);
    expect(places([0, 0], 4)).toEqual([0, 0, null, null]);
  });
});
