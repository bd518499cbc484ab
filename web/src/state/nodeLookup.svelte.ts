// What the table shows of a node besides the stream: loaded for the rows in view, a few requests at a time.

import { SvelteMap } from "svelte/reactivity";

const MAX_REQUESTS = 3;
const TTL_MS = 30_000;

export class NodeLookup<T> {
  private readonly values = new SvelteMap<string, T>();
  private readonly loadedAt = new Map<string, number>();
  /** The rows in view, the last that came into it first: they are what is looked at. */
  private readonly wanted = new Map<string, number>();
  private requests = 0;

  constructor(private readonly load: (nodeId: string) => Promise<T>) {}

  get(nodeId: string): T | undefined {
    return this.values.get(nodeId);
  }

  /** Load a node, and again as it gets old, until the returned function is called; for an effect. */
  watch(nodeId: string): () => void {
    this.wanted.set(nodeId, (this.wanted.get(nodeId) ?? 0) + 1);
    // A row that is scrolled past is not loaded.
    const first = setTimeout(() => void this.next(), 150);
    const timer = setInterval(() => void this.next(), TTL_MS);
    return () => {
      clearTimeout(first);
      clearInterval(timer);
      const rows = (this.wanted.get(nodeId) ?? 1) - 1;
      if (rows > 0) this.wanted.set(nodeId, rows);
      else this.wanted.delete(nodeId);
    };
  }

  private async next(): Promise<void> {
    const due = [...this.wanted.keys()].findLast((nodeId) => performance.now() - (this.loadedAt.get(nodeId) ?? -TTL_MS) >= TTL_MS);
    if (due === undefined || this.requests >= MAX_REQUESTS) return;
    this.loadedAt.set(due, performance.now());
    this.requests += 1;
    try {
      this.values.set(due, await this.load(due));
    } catch {
      this.values.delete(due); // unknown, and tried again when it is due
    }
    this.requests -= 1;
    void this.next();
  }
}
