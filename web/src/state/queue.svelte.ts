// The queue: who waits for GPUs, polled while its view is open; joining and leaving it from the page.

import { ApiError, get, send } from "../feed/client";
import type { QueueRow, QueueView } from "../feed/types";
import type { GpuRequest } from "./gpuRequest";
import { page } from "./page.svelte";

const POLL_MS = 5_000;
/** For how long a request stays in the queue without a sign of the page that made it. */
const KEEP_SECONDS = 120;

class Queue {
  view = $state.raw<QueueView | null>(null);
  error = $state("");
  /** The request that this page made, for as long as it waits or has an offer. */
  mine = $state.raw<QueueRow | null>(null);
  private timer = 0;

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

  /** Wait for GPUs; the page says that they are still wanted for as long as it is open. */
  async join({ count, gigabytes, model }: GpuRequest): Promise<void> {
    const body = { n: count, min_free: `${gigabytes}GiB`, ...(model && { model }), keep_seconds: KEEP_SECONDS };
    const row = await this.attempt(() => send<QueueRow>("POST", "queue", body));
    if (!row) return;
    this.show(row);
    clearInterval(this.timer);
    this.timer = window.setInterval(() => void this.ask({}), POLL_MS);
  }

  /** Take up the offer: the GPUs are kept no longer, and whoever asked goes there now. */
  async take(): Promise<void> {
    await this.ask({ taken: true });
    this.forget();
  }

  async leaveMine(): Promise<void> {
    const row = this.mine;
    this.forget();
    if (row) await this.leave(row.id);
  }

  private async ask(change: { taken?: boolean }): Promise<void> {
    const { mine } = this;
    if (!mine) return;
    try {
      this.show(await send<QueueRow>("PATCH", `queue/${encodeURIComponent(mine.id)}`, change));
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // It has ended, or the session has; while the hub is away it is asked again.
      if (error.status !== 0) {
        this.error = error.message;
        this.forget();
      }
    }
  }

  private show(row: QueueRow): void {
    if (row.offer && !this.mine?.offer && document.hidden && "Notification" in window && Notification.permission === "granted") {
      new Notification(`GPUs for you on ${row.offer.node}`, { body: "Kept for 30 seconds." });
    }
    this.mine = row;
  }

  private forget(): void {
    clearInterval(this.timer);
    this.mine = null;
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
