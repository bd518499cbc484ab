import { expect, it } from "vitest";
import { nodePlots } from "../../src/state/plots";
import { plotAriaLabel, readingText } from "../../src/text/plot";
import { HOST, SERIES, SPAN, node } from "../details";

it("a plot without data says so", () => {
  const { cpu, memory } = nodePlots(node([], { host: { ...HOST, cpu_percent: 31 } }), SERIES, SPAN);
  expect(plotAriaLabel("CPU", cpu.figures, cpu.now, "%")).toBe("CPU: now 31 %, between 10 % and 30 %");
  expect(plotAriaLabel("Host memory", memory.figures, memory.now, "%")).toBe("Host memory: no data in this period");
});

it("small values have one decimal, and unknown values are a dash", () => {
  expect([0, 3.14, 99.6, null, undefined].map((figure) => readingText(figure, "W"))).toEqual(["0 W", "3.1 W", "100 W", "—", "—"]);
});
