// Which GPU's card is open: on hover or focus after a short delay, or pinned until it is closed.

import type { Box } from "./popover";

const HOVER_DELAY_MS = 120;

/** The GPU of a card, its box and the visible part of the page; boxes have the same origin. */
export interface CardTarget {
  /** The number of the GPU's node. */
  readonly number: number;
  readonly uuid: string;
  readonly box: Box;
  readonly view: Box;
}

class OpenCard {
  target = $state.raw<CardTarget | null>(null);
  pinned = $state(false);
  private timer: ReturnType<typeof setTimeout> | undefined;

  /** Open the card of a GPU after the delay, unless another card is pinned. */
  hover(target: CardTarget): void {
    if (this.pinned) return;
    this.schedule(() => (this.target = target));
  }

  /** Close after the delay, which leaves time to move the pointer onto the card. */
  leave(): void {
    if (!this.pinned) this.schedule(() => this.close());
  }

  /** Cancel a pending close: the pointer or the focus is on the card. */
  keepOpen(): void {
    clearTimeout(this.timer);
  }

  /** Pin the card of a GPU; unpin it if it already was. */
  togglePin(target: CardTarget): void {
    const wasPinned = this.pinned && this.target?.uuid === target.uuid;
    this.close();
    if (wasPinned) return;
    this.target = target;
    this.pinned = true;
  }

  close(): void {
    clearTimeout(this.timer);
    this.target = null;
    this.pinned = false;
  }

  private schedule(action: () => void): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(action, HOVER_DELAY_MS);
  }
}

export const card = new OpenCard();
