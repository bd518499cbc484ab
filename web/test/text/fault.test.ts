import { expect, it } from "vitest";
import type { JudgedGpu } from "../../src/feed/types";
import { brokenSince, faultTitle, remedySteps } from "../../src/text/fault";

function broken(reason: string, fault: Partial<NonNullable<JudgedGpu["fault"]>> | null): JudgedGpu {
  return { verdict: { state: "broken", reason, since: 1000, was: null, notes: [], idle_seconds: null }, fault: fault && { kind: "lost", detail: "", remedy: null, since: null, ...fault } } as unknown as JudgedGpu;
}

it("a broken GPU has a title and its remedy in steps", () => {
  const lost = broken("fell off the bus at 17:38. Reboot; if it returns, check the hardware", { detail: "fell off the bus", remedy: "reboot; if it returns, check the hardware" });
  expect(faultTitle(lost, 1000 + 18_780)).toBe("Broken for 5 h 13: fell off the bus");
  expect([brokenSince(lost), brokenSince({ ...lost, fault: { ...lost.fault!, since: 940 } })]).toEqual([1000, 940]);
  expect(remedySteps(lost)).toEqual(["Reboot", "If it returns, check the hardware"]);
  expect(remedySteps(broken("3 uncorrectable memory errors: results may be wrong; reset it or reboot the node. Was busy (mei)", null))).toEqual(["Reset it or reboot the node"]);
  expect(remedySteps(broken("missing", { detail: "missing" }))).toEqual([]);
});
