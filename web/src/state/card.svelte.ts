// Which GPU's card is open: after a moment over it or on it, until left; pinned, until closed.

import type { Box } from "./beside";

const MOMENT_MS = 120;

/** A GPU in its place: its node's number, its box, and what of the page is in view, all from one corner. */
export interface Subject {
  readonly number: number;
  readonly uuid: string;
  readonly box: Box;
  readonly view: Box;
}

class OpenCard {
  subject = $state.raw<Subject | null>(null);
  pinned = $state(false);
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** The reader is at a GPU: its card opens in a moment, unless another is pinned. */
  at(subject: Subject): void {
    if (this.pinned) return;
    this.soon(() => (this.subject = subject));
  }

  /** The reader has left the GPU, and may be on the way to the card. */
  left(): void {
    if (!this.pinned) this.soon(() => this.close());
  }

  /** The reader is at the card itself. */
  stay(): void {
    clearTimeout(this.timer);
  }

  /** Pin the card of a GPU; close it when it was pinned already. */
  pin(subject: Subject): void {
    const again = this.pinned && this.subject?.uuid === subject.uuid;
    this.close();
    if (again) return;
    this.subject = subject;
    this.pinned = true;
  }

  close(): void {
    clearTimeout(this.timer);
    this.subject = null;
    this.pinned = false;
  }

  private soon(act: () => void): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(act, MOMENT_MS);
  }
}

export const card = new OpenCard();
