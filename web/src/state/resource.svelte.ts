// A value loaded from the hub: reloaded when its request changes; the old value stays until then. While the hub is away,
// the request is repeated.

import { ApiError } from "../feed/client";

const RETRY_MS = 3000;
/** Unreachable, or a proxy in front of a hub that restarts. */
const TEMPORARY: readonly number[] = [0, 502, 503, 504];

export class Resource<T> {
  value = $state.raw<T | null>(null);
  error = $state.raw<ApiError | null>(null);

  /** Start a request; the returned function cancels it, so that an effect can return it. */
  load(request: (signal: AbortSignal) => Promise<T>): () => void {
    const abort = new AbortController();
    // The first attempt is made now, so that an effect knows what the request depends on.
    void this.await(request, request(abort.signal), abort.signal);
    return () => abort.abort();
  }

  private async await(request: (signal: AbortSignal) => Promise<T>, response: Promise<T>, signal: AbortSignal): Promise<void> {
    try {
      const value = await response;
      if (signal.aborted) return;
      this.value = value;
      this.error = null;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.error = error;
      if (!TEMPORARY.includes(error.status)) return;
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      if (!signal.aborted) await this.await(request, request(signal), signal);
    }
  }
}
