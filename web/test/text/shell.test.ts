import { expect, test } from "vitest";
import { formatMemory, connectionLostText } from "../../src/text/shell";

test("a lost connection shows the age of the data", () => {
  expect(connectionLostText(12)).toContain("data from 12 s ago");
  expect(connectionLostText(null)).toContain("Cannot reach the hub");
});

test("a memory total has a suitable unit", () => {
  expect(formatMemory(600_000)).toBe("586 GiB");
  expect(formatMemory(1.84 * 2 ** 20)).toBe("1.8 TiB");
});
