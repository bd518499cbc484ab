// One node looked at closely, asked again for as long as somebody looks; or as it was at another moment.

import { NotGranted } from "../feed/ask";
import { type NodeWhole, nodeOf } from "../feed/node";
import { page } from "./page.svelte";
import { route } from "./route.svelte";
import { travel } from "./travel.svelte";

const PACE_MS = 3000;
const GONE = 404;

export class CloseLook {
  private live = $state.raw<NodeWhole | null>(null);
  /** Why there is nothing to show; what was known before stays. */
  refusal = $state.raw<NotGranted | null>(null);

  /** The node, at the moment that is looked at. */
  get node(): NodeWhole | null {
    if (route.at === null) return this.live;
    return travel.nodeOf(this.nodeId) ?? null;
  }

  private nodeId = $state("");

  /** Look at a node until the returned function is called. */
  watch(nodeId: string): () => void {
    const looking = new AbortController();
    this.nodeId = nodeId;
    this.live = this.refusal = null;
    void this.take(nodeId, looking.signal);
    const clock = setInterval(() => page.connection !== "lost" && !document.hidden && void this.take(nodeId, looking.signal), PACE_MS);
    return () => {
      clearInterval(clock);
      looking.abort();
    };
  }

  private async take(nodeId: string, signal: AbortSignal): Promise<void> {
    try {
      this.live = await nodeOf(nodeId, signal);
      this.refusal = null;
    } catch (failure) {
      if (signal.aborted) return;
      if (!(failure instanceof NotGranted)) throw failure;
      this.refusal = failure;
      if (failure.status === GONE) this.live = null;
    }
  }
}
