import { describe, expect, it } from "vitest";
import { EventParser } from "../../src/feed/stream";

const FRAME = 'id: life-7\nevent: change\ndata: {"taken_at":1}\n\n';

function pushed(...parts: string[]): unknown[] {
  const taken: unknown[] = [];
  const frames = new EventParser((id, kind, event) => taken.push([id, kind, event.taken_at]));
  for (const part of parts) frames.push(part);
  return taken;
}

describe("frames of the stream", () => {
  it("are parsed however they are split", () => {
    for (let at = 0; at < FRAME.length; at += 1) {
      expect(pushed(FRAME.slice(0, at), FRAME.slice(at))).toEqual([["life-7", "change", 1]]);
    }
  });

  it("that are comments or of another kind are skipped", () => {
    expect(pushed(":\n\n", "event: other\ndata: {}\n\n", FRAME)).toHaveLength(1);
  });
});
