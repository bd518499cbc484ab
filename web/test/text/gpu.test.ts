import { expect, it } from "vitest";
import { gpuFacts } from "../../src/text/gpu";
import { gpu } from "../details";

it("the tooltip of an unknown fact says why", () => {
  const fan = gpuFacts(gpu(0, { unread: { fan_percent: "not supported" } })).find(({ name }) => name === "Fan");
  expect([fan?.value, fan?.tooltip]).toEqual(["—", "not supported"]);
});
