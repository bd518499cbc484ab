// The page's own state: the fleet as last heard, the connection, and what the reader has chosen.

import type { Connection } from "../feed/stream";
import { listen } from "../feed/stream";
import { Fleet } from "./fleet";

export class Page {
  readonly fleet = new Fleet();
  /** Goes up with every event: what is derived from the fleet reads it. */
  version = $state(0);
  connection = $state<Connection>("connecting");
  /** This machine's clock less the hub's, in seconds; times shown are the hub's. */
  private skew = 0;
  now = $state(Date.now() / 1000);
  /** Try again at once, when the connection is lost. */
  hurry = (): void => undefined;

  start(): () => void {
    const clock = setInterval(() => (this.now = Date.now() / 1000 - this.skew), 1000);
    const { stop, hurry } = listen({
      heard: (kind, event) => {
        this.skew = Date.now() / 1000 - event.taken_at;
        this.fleet.apply(kind, event);
        this.now = event.taken_at;
        this.version += 1;
      },
      became: (connection) => (this.connection = connection),
    });
    this.hurry = hurry;
    addEventListener("online", hurry);
    return () => {
      removeEventListener("online", hurry);
      clearInterval(clock);
      stop();
    };
  }
}

export const page = new Page();
