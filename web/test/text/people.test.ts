import { expect, test } from "vitest";
import { peopleSummary, useText } from "../../src/text/people";

const person = { user: "mei", seen: true, gpus: 2, nodes: ["a"], memory_bytes: null, busy_percent: 97.6, idle_gpus: 0, idle_seconds: null, since: null };

test("idle GPUs are shown instead of the load", () => {
  expect(useText(person)).toBe("98 % busy");
  expect(useText({ ...person, idle_gpus: 2, idle_seconds: 9660 })).toBe("2 idle for 2 h 41");
  expect(useText({ ...person, busy_percent: null })).toBe("—");
});

test("the totals of all users are one sentence", () => {
  const unseen = { ...person, user: "(unseen)", seen: false, gpus: 1 };
  expect(peopleSummary([{ ...person, idle_gpus: 1 }, unseen], { gpus: 3, idle: 1 }, false)).toEqual({ total: "1 person has 3 GPUs.", idle: "1 idle." });
  expect(peopleSummary([{ ...person, idle_gpus: 1 }, unseen], { gpus: 3, idle: 1 }, true)).toEqual({ total: "1 person had 3 GPUs.", idle: "1 idle." });
  expect(peopleSummary([], { gpus: 0, idle: 0 }, false).idle).toBe("");
});
