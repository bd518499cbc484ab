import { expect, it } from "vitest";
import { duration, gibibytes, plural, shortModel, watts } from "../../src/text/format";

it("a duration has one or two units", () => {
  const said = [4, 59, 60, 3599, 3600, 33_120, 86_400, 200_000].map(duration);
  expect(said).toEqual(["4 s", "59 s", "1 min", "59 min", "1 h", "9 h 12", "24 h", "2 d"]);
});

it("unknown memory is not zero", () => {
  expect([gibibytes(null), gibibytes(0), gibibytes(512), gibibytes(81_559)]).toEqual(["—", "0", "0.5", "80"]);
});

it("models are abbreviated", () => {
  expect(shortModel("NVIDIA GeForce RTX 4090")).toBe("RTX 4090");
});

it("counts have plurals, and power has a suitable unit", () => {
  expect([plural(1, "node"), plural(1200, "node"), watts(850), watts(16_100), watts(1_254_000)]).toEqual(["1 node", "1,200 nodes", "850 W", "16.1 kW", "1.25 MW"]);
});
