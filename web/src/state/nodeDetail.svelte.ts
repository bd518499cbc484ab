// One node in full: polled while the page is live, loaded once for a past moment.

import { ApiError } from "../feed/client";
import { fetchNode, fetchNodeCached } from "../feed/node";
import type { NodeView } from "../feed/types";
import { page } from "./page.svelte";

const POLL_MS = 3000;
const NOT_FOUND = 404;

export class NodeDetail {
  /** The node as last loaded; it stays while another moment loads. */
  node = $state.raw<NodeView | null>(null);
  /** Why the last request failed. */
  error = $state.raw<ApiError | null>(null);
  private nodeId = "";

  /** Load a node at the moment that the page shows, until the returned function is called; for an effect. */
  watch(nodeId: string): () => void {
    const abort = new AbortController();
    const at = page.moment;
    if (nodeId !== this.nodeId) this.node = this.error = null;
    this.nodeId = nodeId;
    void this.load(nodeId, at, abort.signal);
    const isDue = (): boolean => at === null && page.connection !== "lost" && !document.hidden;
    const timer = setInterval(() => isDue() && void this.load(nodeId, at, abort.signal), POLL_MS);
    return () => {
      clearInterval(timer);
      abort.abort();
    };
  }

  private async load(nodeId: string, at: number | null, signal: AbortSignal): Promise<void> {
    try {
      const node = await (at === null ? fetchNodeCached(nodeId) : fetchNode(nodeId, at, signal));
      if (signal.aborted) return;
      this.node = node;
      this.error = null;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.error = error;
      if (error.status === NOT_FOUND) this.node = null;
    }
  }
}
