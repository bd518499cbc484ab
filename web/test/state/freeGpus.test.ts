import { expect, test } from "vitest";
import type { Gpu } from "../../src/state/fleet";
import { freeByNode } from "../../src/state/freeGpus";
import { FLEET, fleetOf, sizedGpu } from "../fleets";

test("free GPUs are grouped by node, the largest first, then the most", () => {
  const all = (): boolean => true;
  expect(freeByNode(FLEET, all).map(({ node, gpus }) => [node.info.name, gpus.length])).toEqual([["a1", 1], ["a2", 2], ["a10", 1]]);
  expect(freeByNode(FLEET, all).map(({ mebibytes, since }) => [mebibytes, since])).toEqual([[80, 11], [40, 11], [40, 13]]);
  expect(freeByNode(FLEET, (one: Gpu) => one.node.info.name === "a10")).toHaveLength(1);
});

test("the memory is unknown if that of one GPU is", () => {
  expect(freeByNode(fleetOf({ b: [sizedGpu(0, "free", null), sizedGpu(1, "free", 8)] }), () => true)[0]?.mebibytes).toBeNull();
});
