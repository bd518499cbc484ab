import { expect, test } from "vitest";
import { requestOptions } from "../../src/state/requestOptions";
import { gpu } from "../builders";
import { fleetOf, sizedGpu } from "../fleets";

test("sizes and models are those of the fleet, MIG profiles are listed by themselves", () => {
  const small = { ...sizedGpu(0, "free", 24_564), name: "NVIDIA GeForce RTX 4090", nominal_gigabytes: 24 };
  const divided = { ...gpu(1, "busy"), name: "NVIDIA A100-SXM4-40GB", nominal_gigabytes: 40 };
  divided.instances = [{ uuid: "MIG-1", profile: "1g.5gb", memory_total_mebibytes: 4864, nominal_gigabytes: 5, verdict: divided.verdict }];
  const unknown = { ...sizedGpu(2, "free", null), name: null, nominal_gigabytes: null };
  const { sizes, usable, models } = requestOptions(fleetOf({ a: [small, divided], b: [sizedGpu(0, "busy", 81_559), unknown] }));
  expect(sizes).toEqual([24, 80]);
  expect(usable.get(24)).toBe(24_564);
  expect(models).toEqual([
    { name: "NVIDIA A100-SXM4-40GB 1g.5gb", label: "A100-SXM4-40GB, MIG 1g.5gb" },
    { name: "NVIDIA H100", label: "H100" },
    { name: "NVIDIA GeForce RTX 4090", label: "RTX 4090" },
  ]);
});
