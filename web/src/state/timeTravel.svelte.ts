// Time travel: loads the fleet of the moment in the address, steps through time, plays.

import { untrack } from "svelte";
import { ApiError, get } from "../feed/client";
import type { FleetEvent } from "../feed/stream";
import { page } from "./page.svelte";
import { parseRange, stepMoment, stepSeconds } from "./range";
import { route } from "./route.svelte";

const PLAY_MS = 900;

class TimeTravel {
  isPlaying = $state(false);
  /** Why the moment cannot be shown. */
  error = $state<string | null>(null);
  /** Whether the moment in the address is not shown yet. */
  isLoading = $state(false);
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    $effect.root(() => {
      $effect(() => {
        if (route.at === null) this.showLive();
        else if (page.connection !== "unauthorized") void this.load();
      });
    });
  }

  /** The length of a step, in seconds. */
  get stepSeconds(): number {
    return stepSeconds(parseRange(route.range, "24h"));
  }

  /** Step back or forward; past now is live. */
  step(steps: number): void {
    route.setMoment(stepMoment(route.at, steps, this.stepSeconds, page.clock));
  }

  goLive(): void {
    route.leavePast();
  }

  togglePlay(): void {
    this.isPlaying = !this.isPlaying && route.at !== null;
    clearTimeout(this.timer);
    if (this.isPlaying) this.timer = setTimeout(() => this.playStep(), PLAY_MS);
  }

  private playStep(): void {
    if (!this.isPlaying) return;
    if (!this.isLoading) this.step(1);
    this.timer = setTimeout(() => this.playStep(), PLAY_MS);
  }

  private showLive(): void {
    clearTimeout(this.timer);
    this.isPlaying = false;
    this.error = null;
    // A pause lasts until it is ended: this file is loaded late, and runs once without a past to leave.
    if (untrack(() => page.frozenAt) === null) page.showLive();
  }

  /** Load the moment. One request at a time: while the slider is dragged, only the latest moment is loaded next. */
  private async load(): Promise<void> {
    if (untrack(() => this.isLoading)) return;
    this.isLoading = true;
    page.pause();
    for (let at = route.at, loaded = null as number | null; at !== null && at !== loaded; at = route.at) {
      await this.loadSnapshot(at);
      loaded = at;
    }
    this.isLoading = false;
  }

  private async loadSnapshot(at: number): Promise<void> {
    try {
      const event = await get<FleetEvent>(`stream/snapshot?at=${at}`);
      if (route.at === null) return;
      this.error = null;
      page.showPast(event);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.error = error.message;
    }
  }
}

export const timeTravel = new TimeTravel();
