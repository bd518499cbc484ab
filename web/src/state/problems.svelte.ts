// What the hub cannot do now, and which machines it refuses; polled while the page is open.

import { ApiError, get } from "../feed/client";
import type { HubProblem, Problems as ProblemsResponse, RefusedSender } from "../feed/types";
import { page } from "./page.svelte";

const POLL_MS = 20_000;

class Problems {
  list = $state.raw<readonly HubProblem[]>([]);
  refused = $state.raw<readonly RefusedSender[]>([]);

  get isAny(): boolean {
    return this.list.length > 0 || this.refused.length > 0;
  }

  /** Keep them up to date until the returned function is called; for an effect. */
  watch(): () => void {
    const abort = new AbortController();
    void this.load(abort.signal);
    const isDue = (): boolean => page.connection === "live" && !document.hidden;
    const timer = setInterval(() => isDue() && void this.load(abort.signal), POLL_MS);
    return () => {
      clearInterval(timer);
      abort.abort();
    };
  }

  private async load(signal: AbortSignal): Promise<void> {
    try {
      const { problems, refused } = await get<ProblemsResponse>("problems", signal);
      [this.list, this.refused] = [problems, refused];
    } catch (error) {
      // The connection banner reports a hub that is gone.
      if (!signal.aborted && !(error instanceof ApiError)) throw error;
    }
  }
}

export const problems = new Problems();
