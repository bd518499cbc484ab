// The hub's stream: opened, watched, and opened again from the last event when it breaks.

import type { FleetEvent } from "./event";

export type Connection = "connecting" | "live" | "lost" | "refused";
export interface Listener {
  heard(kind: "fleet" | "change", event: FleetEvent): void;
  became(connection: Connection): void;
}

const QUIET_SECONDS = 25; // the hub sends a comment at least every 15
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** Listen for as long as the page is open; what is returned ends a wait before the next try. */
export function listen(listener: Listener): () => void {
  let hurry = (): void => undefined;
  let lastId = "";
  let waitMs = FIRST_WAIT_MS;

  const run = async (): Promise<void> => {
    for (;;) {
      const ended = await once(lastId, (id, kind, event) => {
        lastId = id;
        waitMs = FIRST_WAIT_MS;
        listener.became("live");
        listener.heard(kind, event);
      });
      listener.became(ended);
      if (ended === "refused") return;
      await new Promise<void>((resolve) => {
        hurry = resolve;
        setTimeout(resolve, waitMs * (0.5 + Math.random() / 2));
      });
      waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
    }
  };
  void run();
  return () => hurry();
}

type Take = (id: string, kind: "fleet" | "change", event: FleetEvent) => void;

/** One connection, until it ends; how it ended. */
async function once(lastId: string, take: Take): Promise<"lost" | "refused"> {
  const abort = new AbortController();
  let quiet = setTimeout(() => abort.abort(), QUIET_SECONDS * 1000);
  const heard = (): void => {
    clearTimeout(quiet);
    quiet = setTimeout(() => abort.abort(), QUIET_SECONDS * 1000);
  };
  try {
    const answer = await fetch("/api/v1/stream", {
      headers: { Accept: "text/event-stream", ...(lastId && { "Last-Event-ID": lastId }) },
      signal: abort.signal,
      cache: "no-store",
    });
    if (answer.status === 401 || answer.status === 403) return "refused";
    if (!answer.ok || !answer.body) return "lost";
    const frames = new Frames(take);
    const reader = answer.body.getReader();
    const decoder = new TextDecoder();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "lost";
      heard();
      frames.push(decoder.decode(value, { stream: true }));
    }
  } catch {
    return "lost";
  } finally {
    clearTimeout(quiet);
  }
}

/** Cuts text into events; a frame may come in many parts. */
export class Frames {
  private rest: string[] = [];
  /** How the text before this ended, as an end of a frame may be cut in two. */
  private last = "";

  constructor(private readonly take: Take) {}

  push(text: string): void {
    this.rest.push(text);
    const isEnded = (this.last + text).includes("\n\n");
    this.last = text.slice(-1);
    if (!isEnded) return; // a whole fleet comes in hundreds of parts: they are joined once
    const frames = this.rest.join("").split("\n\n");
    this.rest = [frames.pop() ?? ""];
    for (const frame of frames) this.frame(frame);
  }

  private frame(frame: string): void {
    const fields = new Map<string, string>();
    for (const line of frame.split("\n")) {
      const colon = line.indexOf(": ");
      if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 2));
    }
    const kind = fields.get("event");
    const data = fields.get("data");
    if ((kind === "fleet" || kind === "change") && data !== undefined) {
      this.take(fields.get("id") ?? "", kind, JSON.parse(data) as FleetEvent);
    }
  }
}
