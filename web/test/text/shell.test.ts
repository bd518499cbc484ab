import { expect, test } from "vitest";
import { formatMemory, lostText } from "../../src/text/shell";

test("a lost connection is said with the age of what is shown", () => {
  expect(lostText(12)).toContain("data from 12 s ago");
  expect(lostText(null)).toContain("Cannot reach the hub");
});

test("a total of memory is said in the unit that suits it", () => {
  expect(formatMemory(600_000)).toBe("586 GiB");
  expect(formatMemory(1.84 * 2 ** 20)).toBe("1.8 TiB");
});
