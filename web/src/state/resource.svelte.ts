// A value loaded from the hub: reloaded when its request changes; the old value stays until then.

import { ApiError } from "../feed/client";

export class Resource<T> {
  value = $state.raw<T | null>(null);
  error = $state.raw<ApiError | null>(null);

  /** Start a request; the returned function cancels it, so that an effect can return it. */
  load(request: (signal: AbortSignal) => Promise<T>): () => void {
    const abort = new AbortController();
    void this.await(request(abort.signal), abort.signal);
    return () => abort.abort();
  }

  private async await(response: Promise<T>, signal: AbortSignal): Promise<void> {
    try {
      const value = await response;
      if (signal.aborted) return;
      this.value = value;
      this.error = null;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof ApiError)) throw error;
      this.error = error;
    }
  }
}
