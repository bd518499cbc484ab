// The hub's stream of server-sent events, with reconnects that resume after the last event.

import type { Event } from "./types";

export type FleetEvent = Event;
export type EventKind = "fleet" | "change";
export type Connection = "connecting" | "live" | "lost" | "unauthorized";

export interface Subscriber {
  onEvent(kind: EventKind, event: FleetEvent): void;
  onConnection(connection: Connection): void;
}

const IDLE_TIMEOUT_MS = 25_000; // the hub sends a comment at least every 15 seconds
const MIN_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 15_000;

/** Subscribe for as long as the page is open. The returned function retries now instead of after the back-off. */
export function subscribe(subscriber: Subscriber): () => void {
  let retryNow = (): void => undefined;
  let lastId = "";
  let backoffMs = MIN_BACKOFF_MS;

  const run = async (): Promise<void> => {
    for (;;) {
      const outcome = await connect(lastId, (id, kind, event) => {
        lastId = id;
        backoffMs = MIN_BACKOFF_MS;
        subscriber.onConnection("live");
        subscriber.onEvent(kind, event);
      });
      subscriber.onConnection(outcome);
      if (outcome === "unauthorized") return;
      await new Promise<void>((resolve) => {
        retryNow = resolve;
        // With jitter: after a restart of the hub not all pages come back in the same second.
        setTimeout(resolve, backoffMs * (0.5 + Math.random() / 2));
      });
      backoffMs = Math.min(backoffMs * 2, MAX_BACKOFF_MS);
    }
  };
  void run();
  return () => retryNow();
}

type OnEvent = (id: string, kind: EventKind, event: FleetEvent) => void;

/** Read one connection until it ends; returns why it ended. */
async function connect(lastId: string, onEvent: OnEvent): Promise<"lost" | "unauthorized"> {
  const abort = new AbortController();
  let idle = setTimeout(() => abort.abort(), IDLE_TIMEOUT_MS);
  const restartTimeout = (): void => {
    clearTimeout(idle);
    idle = setTimeout(() => abort.abort(), IDLE_TIMEOUT_MS);
  };
  try {
    const response = await fetch("api/v1/stream", {
      headers: { Accept: "text/event-stream", ...(lastId && { "Last-Event-ID": lastId }) },
      signal: abort.signal,
      cache: "no-store",
    });
    if (response.status === 401 || response.status === 403) return "unauthorized";
    if (!response.ok || !response.body) return "lost";
    const parser = new EventParser(onEvent);
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return "lost";
      restartTimeout();
      parser.push(decoder.decode(value, { stream: true }));
    }
  } catch {
    return "lost";
  } finally {
    clearTimeout(idle);
  }
}

/** Parses server-sent events from text that arrives in chunks of any size. */
export class EventParser {
  private chunks: string[] = [];
  /** The last character of the previous chunk: the blank line that ends a frame may be split. */
  private lastCharacter = "";

  constructor(private readonly onEvent: OnEvent) {}

  push(text: string): void {
    this.chunks.push(text);
    const endsFrame = (this.lastCharacter + text).includes("\n\n");
    this.lastCharacter = text.slice(-1);
    if (!endsFrame) return; // a large fleet arrives in hundreds of chunks: join them once
    const frames = this.chunks.join("").split("\n\n");
    this.chunks = [frames.pop() ?? ""];
    for (const frame of frames) this.parse(frame);
  }

  private parse(frame: string): void {
    const fields = new Map<string, string>();
    for (const line of frame.split("\n")) {
      const colon = line.indexOf(": ");
      if (colon > 0) fields.set(line.slice(0, colon), line.slice(colon + 2));
    }
    const kind = fields.get("event");
    const data = fields.get("data");
    if ((kind === "fleet" || kind === "change") && data !== undefined) {
      this.onEvent(fields.get("id") ?? "", kind, JSON.parse(data) as FleetEvent);
    }
  }
}
