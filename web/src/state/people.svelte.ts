// Who holds GPUs now, asked again and again for as long as somebody looks.

import { NotGranted, ask } from "../feed/ask";
import { page } from "./page.svelte";

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
  private watchers = 0;
  private clock = 0;

  /** Keep the list fresh until the returned function is called. */
  watch(): () => void {
    if (this.watchers++ === 0) {
      void this.load();
      this.clock = window.setInterval(() => page.connection === "live" && !document.hidden && void this.load(), PACE_MS);
    }
    return () => {
      if (--this.watchers === 0) clearInterval(this.clock);
    };
  }

  private async load(): Promise<void> {
    try {
      this.list = (await ask<{ people: Person[] }>("people")).people;
    } catch (error) {
      // The banner tells of a hub that is gone; what was known before stays.
      if (!(error instanceof NotGranted)) throw error;
    }
  }
}

export const people = new People();
