// Requests for one node in full: clocks, processes, faults, collectors.

import { cached } from "./cache";
import { get } from "./client";
import type { NodeView } from "./types";

// Shorter than the interval at which an open card or page polls.
const TTL_MS = 2500;

/** One node, now or at a past moment; throws `ApiError`. */
export function fetchNode(nodeId: string, at: number | null, signal?: AbortSignal): Promise<NodeView> {
  return get(`nodes/${encodeURIComponent(nodeId)}${at === null ? "" : `?at=${at}`}`, signal);
}

/** One node now, at most a few seconds old; throws `ApiError`. */
export const fetchNodeCached = cached<NodeView>(TTL_MS, (nodeId) => fetchNode(nodeId, null));
