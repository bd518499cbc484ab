import { expect, it } from "vitest";
import { unreadableGpus } from "../../src/state/processes";
import { formatRanges, nodeFacts, nodeWarnings, processNote, processScope, usersOf } from "../../src/text/detail";
import { gpuFacts } from "../../src/text/gpu";
import { gpu, node, process } from "../details";

it("unreadable processes do not look like none", () => {
  expect(unreadableGpus(node([gpu(0), gpu(1, { processes: null })]))).toEqual([1]);
  expect(processNote([], [1])).toBe("not readable on GPU 1");
  expect(processNote([], [])).toBe("none");
  expect(processNote([], [1], 872)).toBe("and 872 more, which are not listed; not readable on GPU 1");
});

it("consecutive GPUs are written as a range", () => {
  expect(formatRanges([7, 0, 1, 2])).toBe("0–2, 7");
});

it("users are listed once, without unknown ones", () => {
  expect(usersOf([process(1), process(2), process(3, { user: null }), process(4, { user: "omar" })])).toEqual(["mei", "omar"]);
  expect(processScope(process(1))).toBe("—");
  expect(processScope(process(1, { slurm_job: "42", container: "lab" }))).toBe("Slurm job 42, container lab");
});

it("an unknown fact is a dash", () => {
  const facts = nodeFacts(node([]), null, 5000);
  expect(facts.find(({ name }) => name === "Driver")?.value).toBe("—");
  expect(gpuFacts(gpu(0)).filter(({ name }) => name !== "UUID").map(({ value }) => value)).toEqual(Array(21).fill("—"));
});

it("the warnings about a node are sentences", () => {
  const runs = [
    { name: "nvidia", outcome: "failed" as const, seconds: 0, detail: "driver not answering", fault: null },
    { name: "nvgpu", outcome: "ok" as const, seconds: 0, detail: "cannot tell memory", fault: null },
    { name: "amd", outcome: "absent" as const, seconds: 0, detail: "no driver", fault: null },
  ];
  const odd = node([], { trouble: "no route to host", clock_skew_seconds: -300, missing_reports: 2, runs });
  expect(nodeWarnings(odd)).toEqual(["no route to host", "clock is 5 min ahead", "2 reports missing", "nvidia: driver not answering", "read through nvgpu, which cannot tell memory"]);
  expect(nodeWarnings(node([]))).toEqual([]);
});
