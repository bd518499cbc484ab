// The page's own state: the fleet as last heard, or as it was at another moment; the connection, and the time.

import type { FleetEvent } from "../feed/event";
import type { Connection } from "../feed/stream";
import { listen } from "../feed/stream";
import { Fleet } from "./fleet";

// A hub tells of a large fleet part by part, ten times a second: nobody reads so fast.
const REDRAW_MS = 250;

export class Page {
  /** The fleet as last heard, whatever is shown. */
  readonly live = new Fleet();
  private past = $state.raw<Fleet | null>(null);
  /** Whether another moment is shown, or on its way: the present is not shown in its place. */
  private isAway = false;
  /** Goes up when there is something new to show: what is derived from the fleet reads it. */
  version = $state(0);
  /** The fleet's `roster`: what depends on that alone reads this instead. */
  roster = $state(0);
  connection = $state<Connection>("connecting");
  /** This machine's clock less the hub's, in seconds; times shown are the hub's. */
  private skew = 0;
  /** The hub's time in whole seconds: whatever shows an age is drawn anew with it. */
  clock = $state(Math.floor(Date.now() / 1000));
  private shownAt = -REDRAW_MS;
  private waiting = 0;
  /** Try again at once, when the connection is lost. */
  hurry = (): void => undefined;

  /** The fleet that is shown. */
  get fleet(): Fleet {
    return this.past ?? this.live;
  }

  /** The moment that is shown. */
  get now(): number {
    return this.past?.takenAt ?? this.clock;
  }

  get isPast(): boolean {
    return this.past !== null;
  }

  /** Listen to the hub for as long as the page is open. */
  listen(): void {
    setInterval(() => this.tick(), 1000);
    this.hurry = listen({
      heard: (kind, event) => {
        this.skew = Date.now() / 1000 - event.taken_at;
        this.live.apply(kind, event);
        if (!this.isAway) this.waiting ||= window.setTimeout(() => this.show(), this.shownAt + REDRAW_MS - performance.now());
      },
      became: (connection) => (this.connection = connection),
    });
    addEventListener("online", this.hurry);
  }

  /** Leave the present: what is shown stays as it is until `recall`. */
  leave(): void {
    this.isAway = true;
    clearTimeout(this.waiting);
    this.waiting = 0;
  }

  /** Show the fleet as it was. */
  recall(event: FleetEvent): void {
    const past = new Fleet();
    past.apply("fleet", event);
    this.past = past;
    this.show();
  }

  /** Show the fleet as it is. */
  comeBack(): void {
    if (!this.isAway) return;
    this.isAway = false;
    this.past = null;
    if (this.live.summary) this.show();
  }

  private show(): void {
    this.waiting = 0;
    this.shownAt = performance.now();
    this.version += 1;
    this.roster = this.fleet.roster;
    this.tick();
  }

  private tick(): void {
    this.clock = Math.floor(Date.now() / 1000 - this.skew);
  }
}

export const page = new Page();
