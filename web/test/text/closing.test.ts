import { expect, test } from "vitest";

import type { Closing } from "../../src/feed/types";
import { closedTarget, closingText } from "../../src/text/closing";

const NOW = new Date(2026, 10, 18, 9, 30).getTime() / 1000;
const CLOSING: Closing = {
  id: "1",
  node_id: "n",
  uuid: null,
  label: null,
  until: null,
  note: "new fan",
  by: "maria",
  created_at: NOW,
};

const until = (...when: [number, number, number, number, number]): number => new Date(...when).getTime() / 1000;

test("a closing says who, until when and why", () => {
  expect(closingText(CLOSING, NOW)).toBe("by maria: new fan");
  expect(closingText({ ...CLOSING, note: "", until: until(2026, 10, 18, 18, 5) }, NOW)).toBe("by maria until 18:05");
  expect(closingText({ ...CLOSING, until: until(2026, 10, 20, 18, 0) }, NOW)).toBe("by maria until Fri 11-20 18:00: new fan");
  expect(closingText({ ...CLOSING, until: until(2026, 11, 1, 0, 0) }, NOW)).toBe("by maria until 2026-12-01 00:00: new fan");
});

test("a closing names what is closed", () => {
  const devices = new Map([["GPU-1", "GPU 1"]]);
  expect(closedTarget(CLOSING, devices)).toBe("This node");
  expect(closedTarget({ ...CLOSING, uuid: "GPU-1" }, devices)).toBe("GPU 1");
  expect(closedTarget({ ...CLOSING, uuid: "GPU-2" }, devices)).toBe("GPU-2");
  expect(closedTarget({ ...CLOSING, node_id: null, label: "rack=3" }, devices)).toBe("Every node with rack 3");
});
