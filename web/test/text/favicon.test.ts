import { expect, test } from "vitest";
import { faviconUrl } from "../../src/text/favicon";
import { tabTitle } from "../../src/text/shell";

test("the tab shows the number of free GPUs once it is known", () => {
  expect(tabTitle(14, "lab.example")).toBe("14 free · lab.example · fleet-smi");
  expect(tabTitle(null, "")).toBe("fleet-smi");
  expect(decodeURIComponent(faviconUrl(14))).toContain(">14</text>");
  expect(decodeURIComponent(faviconUrl(12_345))).toContain(">1k+</text>");
  expect(decodeURIComponent(faviconUrl(null))).toContain("<circle");
});
