import { expect, it } from "vitest";
import { gpusCsv } from "../../src/state/csv";
import { gpuOf } from "../gpus";

it("in CSV unknown values are empty and no cell is a formula", () => {
  const hostile = gpuOf({ node: '=cmd|"x"', users: null, model: null, busy_percent: null, state: "unknown", reason: "a, b\nc" });
  const [head = "", line = ""] = gpusCsv([hostile]).split("\r\n");
  expect(head.split(",")).toHaveLength(15);
  expect(line).toBe(`"'=cmd|""x""",0,unknown,1970-01-01T00:16:40.000Z,,,0,81920,33,70,,550.90.07,,GPU-usual,"a, b\nc"`);
});
