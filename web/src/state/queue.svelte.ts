// The queue: who waits for GPUs, polled while its view is open; and leaving it.

import { ApiError, get, send } from "../feed/client";
import type { QueueView } from "../feed/types";
import { page } from "./page.svelte";

const POLL_MS = 5_000;

class Queue {
  view = $state.raw<QueueView | null>(null);
  error = $state("");

  /** Keep the queue up to date until the returned function is called. */
  watch(): () => void {
    const abort = new AbortController();
    void this.load(abort.signal);
    const timer = setInterval(() => page.connection === "live" && !document.hidden && void this.load(abort.signal), POLL_MS);
    return () => {
      clearInterval(timer);
      abort.abort();
    };
  }

  async leave(id: string): Promise<void> {
    await this.attempt(() => send("DELETE", `queue/${encodeURIComponent(id)}`));
    await this.load(new AbortController().signal);
  }

  private async load(signal: AbortSignal): Promise<void> {
    const view = await this.attempt(() => get<QueueView>("queue", signal), signal);
    if (view) this.view = view;
  }

  private async attempt<T>(action: () => Promise<T>, signal?: AbortSignal): Promise<T | undefined> {
    try {
      const result = await action();
      this.error = "";
      return result;
    } catch (error) {
      if (signal?.aborted) return undefined;
      if (!(error instanceof ApiError)) throw error;
      // The connection banner reports a hub that is gone; the old list stays.
      this.error = error.status === 0 ? "" : error.message;
      return undefined;
    }
  }
}

export const queue = new Queue();
