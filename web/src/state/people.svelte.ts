// Who holds GPUs at the moment that is looked at; of now, asked again and again for as long as somebody looks.

import { NotGranted, ask } from "../feed/ask";
import { page } from "./page.svelte";
import { route } from "./route.svelte";

/** The twin of model/people.py, which explains each field. */
export interface Person {
  user: string;
  seen: boolean;
  gpus: number;
  nodes: string[];
  memory_bytes: number | null;
  busy_percent: number | null;
  idle_gpus: number;
  idle_seconds: number | null;
  since: number | null;
}

const PACE_MS = 10_000;

class People {
  list = $state.raw<readonly Person[] | null>(null);

  /** Keep the list fresh until the returned function is called; for an effect, which runs again when the moment is another. */
  watch(): () => void {
    const looking = new AbortController();
    const at = route.at;
    void this.load(at, looking.signal);
    const clock = setInterval(() => at === null && page.connection === "live" && !document.hidden && void this.load(at, looking.signal), PACE_MS);
    return () => {
      clearInterval(clock);
      looking.abort();
    };
  }

  private async load(at: number | null, signal: AbortSignal): Promise<void> {
    try {
      this.list = (await ask<{ people: Person[] }>(at === null ? "people" : `people?at=${at}`, signal)).people;
    } catch (error) {
      // The banner tells of a hub that is gone; what was known before stays.
      if (!signal.aborted && !(error instanceof NotGranted)) throw error;
    }
  }
}

export const people = new People();
