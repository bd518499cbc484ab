// An answer of the hub's that is asked for anew when the question changes; until it comes, the one before stays.

import { NotGranted } from "../feed/ask";

export class Asked<T> {
  value = $state.raw<T | null>(null);
  refusal = $state.raw<NotGranted | null>(null);

  /** Ask; the returned function gives up waiting, so that an effect can return it. */
  ask(question: (signal: AbortSignal) => Promise<T>): () => void {
    const waiting = new AbortController();
    void this.wait(question(waiting.signal), waiting.signal);
    return () => waiting.abort();
  }

  private async wait(answer: Promise<T>, signal: AbortSignal): Promise<void> {
    try {
      const value = await answer;
      if (signal.aborted) return;
      this.value = value;
      this.refusal = null;
    } catch (failure) {
      if (signal.aborted) return;
      if (!(failure instanceof NotGranted)) throw failure;
      this.refusal = failure;
    }
  }
}
