// The page's data: the live fleet or the fleet at a past moment, the connection, and the hub's clock.

import { watchSession } from "../feed/client";
import { type Connection, type FleetEvent, subscribe } from "../feed/stream";
import { Fleet } from "./fleet";

// The hub sends a large fleet in parts, up to ten a second: more redraws than anybody can read.
const REDRAW_MS = 250;

export class Page {
  /** The fleet as of the last event, even while a past moment is shown. */
  readonly live = new Fleet();
  private past = $state.raw<Fleet | null>(null);
  /** Set while a past moment is shown or loading: live events are applied but not drawn. */
  private isPaused = false;
  /** Since when the user has paused updates; `null` if they have not. */
  frozenAt = $state<number | null>(null);
  /** Incremented when there is something new to draw: whatever is derived from the fleet reads it. */
  version = $state(0);
  /** The fleet's `roster`, for what depends on nothing else. */
  roster = $state(0);
  connection = $state<Connection>("connecting");
  /** This computer's clock minus the hub's, in seconds. All times on the page are the hub's. */
  private skew = 0;
  /** The hub's time in whole seconds: reading it redraws an age every second. */
  clock = $state(Math.floor(Date.now() / 1000));
  private drawnAt = -REDRAW_MS;
  private redrawTimer = 0;
  /** Reconnect now instead of after the back-off. */
  retryNow = (): void => undefined;

  /** The fleet that is shown. */
  get fleet(): Fleet {
    return this.past ?? this.live;
  }

  /** The time that is shown: the past moment or the hub's clock. */
  get now(): number {
    return this.past?.takenAt ?? this.clock;
  }

  get isPast(): boolean {
    return this.past !== null;
  }

  /** The past moment that is shown; `null` while the page is live. */
  get moment(): number | null {
    return this.past?.takenAt ?? null;
  }

  /** Subscribe to the hub for as long as the page is open. */
  connect(): void {
    setInterval(() => this.tick(), 1000);
    this.retryNow = subscribe({
      onEvent: (kind, event) => {
        this.skew = Date.now() / 1000 - event.taken_at;
        this.live.apply(kind, event);
        if (!this.isPaused) this.redrawTimer ||= window.setTimeout(() => this.redraw(), this.drawnAt + REDRAW_MS - performance.now());
      },
      // A session that has ended does not come back without signing in, which loads the page again.
      onConnection: (connection) => this.connection !== "unauthorized" && (this.connection = connection),
    });
    addEventListener("online", this.retryNow);
    watchSession(() => (this.connection = "unauthorized"));
  }

  /** Stop drawing live events until called again: what moves is hard to read. */
  toggleFreeze(): void {
    if (this.frozenAt !== null) return this.showLive();
    if (this.isPast) return;
    this.pause();
    this.frozenAt = this.clock;
  }

  /** Stop drawing live events, until `showPast` or `showLive`. */
  pause(): void {
    this.isPaused = true;
    this.frozenAt = null;
    clearTimeout(this.redrawTimer);
    this.redrawTimer = 0;
  }

  /** Show the fleet of a past moment, which is an event like the first of the stream. */
  showPast(event: FleetEvent): void {
    const past = new Fleet();
    past.apply("fleet", event);
    this.past = past;
    this.redraw();
  }

  showLive(): void {
    if (!this.isPaused) return;
    this.frozenAt = null;
    this.isPaused = false;
    this.past = null;
    if (this.live.summary) this.redraw();
  }

  private redraw(): void {
    this.redrawTimer = 0;
    this.drawnAt = performance.now();
    this.version += 1;
    this.roster = this.fleet.roster;
    this.tick();
  }

  private tick(): void {
    this.clock = Math.floor(Date.now() / 1000 - this.skew);
  }
}

export const page = new Page();
