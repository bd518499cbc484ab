import { expect, test } from "vitest";
import { faviconUrl } from "../src/text/favicon";
import { peopleSummary, useText } from "../src/text/people";
import { lostText, formatMemory, tabTitle } from "../src/text/shell";

const person = { user: "mei", seen: true, gpus: 2, nodes: ["a"], memory_bytes: null, busy_percent: 97.6, idle_gpus: 0, idle_seconds: null, since: null };

test("a tab says how many are free, and nothing while that is not known", () => {
  expect(tabTitle(14)).toBe("14 free · fleet-smi");
  expect(tabTitle(null)).toBe("fleet-smi");
  expect(decodeURIComponent(faviconUrl(14))).toContain(">14</text>");
  expect(decodeURIComponent(faviconUrl(12_345))).toContain(">1k+</text>");
  expect(decodeURIComponent(faviconUrl(null))).toContain("<circle");
});

test("a lostText connection is said with the age of what is shown", () => {
  expect(lostText(12)).toContain("known 12 s ago");
  expect(lostText(null)).toContain("does not answer");
});

test("what somebody holds idle is said before how much is used", () => {
  expect(useText(person)).toBe("98 % used");
  expect(useText({ ...person, idle_gpus: 2, idle_seconds: 9660 })).toBe("2 idle 2 h 41");
  expect(useText({ ...person, busy_percent: null })).toBe("–");
});

test("all people are one sentence", () => {
  const unseen = { ...person, user: "(unseen)", seen: false, gpus: 1 };
  expect(peopleSummary([{ ...person, idle_gpus: 1 }, unseen], false)).toEqual({ have: "1 person has 3 GPUs now.", idle: "1 of these is doing nothing." });
  expect(peopleSummary([{ ...person, idle_gpus: 1 }, unseen], true)).toEqual({ have: "1 person had 3 GPUs then.", idle: "1 of these was doing nothing." });
  expect(peopleSummary([], false).idle).toBe("");
});

test("a sum of formatMemory is said in the unit that suits it", () => {
  expect(formatMemory(600_000)).toBe("586 GiB");
  expect(formatMemory(1.84 * 2 ** 20)).toBe("1.8 TiB");
});
