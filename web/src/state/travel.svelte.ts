// Time travel: the moment is in the address; the fleet of that moment is asked of the hub and shown in place of the present.

import { NotGranted, ask } from "../feed/ask";
import type { NodeWhole } from "../feed/node";
import { page } from "./page.svelte";
import { type FleetView, eventOf } from "./past";
import { rangeOf, stepOf, stepped } from "./range";
import { route } from "./route.svelte";

const PLAY_MS = 900;

class Travel {
  isPlaying = $state(false);
  /** Why the moment cannot be shown. */
  refusal = $state<string | null>(null);
  /** The fleet of the moment, as the hub told it. */
  view = $state.raw<FleetView | null>(null);
  private isAsking = false;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    $effect.root(() => {
      $effect(() => {
        if (route.at === null) this.arriveNow();
        else if (page.connection !== "refused") void this.arrive();
      });
    });
  }

  /** How far a step goes, in seconds. */
  get step(): number {
    return stepOf(rangeOf(route.range, "24h"));
  }

  /** A node as it was at the moment. */
  nodeOf(nodeId: string): NodeWhole | undefined {
    return this.view?.nodes.find((node) => node.node_id === nodeId);
  }

  /** Steps back or on; beyond now is now. */
  by(steps: number): void {
    route.travel(stepped(route.at, steps, this.step, page.clock));
  }

  toNow(): void {
    route.travel(null);
  }

  play(): void {
    this.isPlaying = !this.isPlaying && route.at !== null;
    clearTimeout(this.timer);
    if (this.isPlaying) this.timer = setTimeout(() => this.playOn(), PLAY_MS);
  }

  private playOn(): void {
    if (!this.isPlaying) return;
    if (!this.isAsking) this.by(1);
    this.timer = setTimeout(() => this.playOn(), PLAY_MS);
  }

  private arriveNow(): void {
    clearTimeout(this.timer);
    this.isPlaying = false;
    this.refusal = this.view = null;
    page.comeBack();
  }

  /** One question at a time: a slider that is dragged asks for where it is when the answer comes. */
  private async arrive(): Promise<void> {
    if (this.isAsking) return;
    this.isAsking = true;
    page.leave();
    for (let at = route.at, shown = null as number | null; at !== null && at !== shown; at = route.at) {
      await this.look(at);
      shown = at;
    }
    this.isAsking = false;
  }

  private async look(at: number): Promise<void> {
    try {
      const view = await ask<FleetView>(`fleet?at=${at}`);
      if (route.at === null) return;
      this.view = view;
      this.refusal = null;
      const numbers = new Map([...page.live.nodes].map(([number, { brief }]) => [brief.node_id, number]));
      page.recall(eventOf(view, numbers));
    } catch (failure) {
      if (!(failure instanceof NotGranted)) throw failure;
      this.refusal = failure.message;
    }
  }
}

export const travel = new Travel();
