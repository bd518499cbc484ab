// One node looked at closely: its details and its last hour, asked again for as long as somebody looks.

import { NotGranted } from "../feed/ask";
import { type Hour, type NodeWhole, hourOf, nodeOf } from "../feed/node";
import { page } from "./page.svelte";

const NODE_PACE_MS = 3000;
const HOUR_PACE_MS = 10_000;
const GONE = 404;

export class CloseLook {
  node = $state.raw<NodeWhole | null>(null);
  hour = $state.raw<Hour | null>(null);
  /** Why there is nothing to show; what was known before stays. */
  refusal = $state.raw<NotGranted | null>(null);

  /** Look at a node until the returned function is called. */
  watch(nodeId: string): () => void {
    const looking = new AbortController();
    const { signal } = looking;
    this.node = this.hour = this.refusal = null;
    const ends = [
      again(NODE_PACE_MS, () => this.take(async () => (this.node = await nodeOf(nodeId, signal)), signal)),
      again(HOUR_PACE_MS, () => this.take(async () => (this.hour = await hourOf(nodeId, signal)), signal)),
    ];
    return () => {
      ends.forEach((end) => end());
      looking.abort();
    };
  }

  private async take(asking: () => Promise<unknown>, signal: AbortSignal): Promise<void> {
    try {
      await asking();
      this.refusal = null;
    } catch (failure) {
      if (signal.aborted) return;
      if (!(failure instanceof NotGranted)) throw failure;
      this.refusal = failure;
      if (failure.status === GONE) this.node = this.hour = null;
    }
  }
}

function again(paceMs: number, act: () => Promise<void>): () => void {
  void act();
  const clock = setInterval(() => page.connection !== "lost" && !document.hidden && void act(), paceMs);
  return () => clearInterval(clock);
}
