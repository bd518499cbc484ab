import { expect, it } from "vitest";
import type { JudgedGpu } from "../../src/feed/types";
import { gpuFacts } from "../../src/text/gpu";

/** A GPU that tells what is given here, and nothing else. */
function gpu(index: number, fields: Partial<JudgedGpu> = {}): JudgedGpu {
  const silent = new Proxy({} as JudgedGpu, { get: () => null });
  const told = {
    uuid: `GPU-${index}`,
    uuid_is_made: false,
    index,
    memory_shared: false,
    asleep: false,
    unread: {},
    instances: [],
    processes: [],
    verdict: { state: "free", reason: "not in use", since: 0, notes: [] },
    ...fields,
  };
  return Object.setPrototypeOf(told, silent) as JudgedGpu;
}

it("the tooltip of an unknown fact says why", () => {
  const fan = gpuFacts(gpu(0, { unread: { fan_percent: "not supported" } })).find(({ name }) => name === "Fan");
  expect([fan?.value, fan?.tooltip]).toEqual(["—", "not supported"]);
});
