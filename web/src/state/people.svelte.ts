// Who uses GPUs at the moment that is shown; polled while the page is live.

import { ApiError, get } from "../feed/client";
import type { PeopleView as PeopleResponse, Person } from "../feed/types";
import { page } from "./page.svelte";
import { route } from "./route.svelte";

const POLL_MS = 10_000;

class People {
  list = $state.raw<readonly Person[] | null>(null);

  /** Keep the list up to date until the returned function is called; for an effect, which runs again for another moment. */
  watch(): () => void {
    const abort = new AbortController();
    const at = route.at;
    void this.load(at, abort.signal);
    const isDue = (): boolean => at === null && page.connection === "live" && !document.hidden;
    const timer = setInterval(() => isDue() && void this.load(at, abort.signal), POLL_MS);
    return () => {
      clearInterval(timer);
      abort.abort();
    };
  }

  private async load(at: number | null, signal: AbortSignal): Promise<void> {
    try {
      this.list = (await get<PeopleResponse>(at === null ? "people" : `people?at=${at}`, signal)).people;
    } catch (error) {
      // The connection banner reports a hub that is gone; the old list stays.
      if (!signal.aborted && !(error instanceof ApiError)) throw error;
    }
  }
}

export const people = new People();
