// Which of many blocks are seen: only these are drawn, so that a thousand nodes cost what thirty do.

export interface Block {
  readonly key: string;
  readonly height: number;
}

/** The blocks from `from` up to, not with, `to`; and the heights of what is left out on both sides. */
export interface Seen {
  readonly from: number;
  readonly to: number;
  readonly above: number;
  readonly below: number;
}

/** The blocks that any part of lies between `top` and `bottom`. */
export function seen(blocks: readonly Block[], top: number, bottom: number): Seen {
  let [from, to, above, at] = [0, 0, 0, 0];
  for (const { height } of blocks) {
    if (at + height <= top) {
      from += 1;
      above += height;
    }
    if (at < bottom) to += 1;
    at += height;
  }
  from = Math.min(from, to);
  return { from, to, above, below: at - above - heightOf(blocks, from, to) };
}

/** How tall the blocks between these two are. */
export function heightOf(blocks: readonly Block[], from: number, to: number): number {
  let sum = 0;
  for (let at = from; at < to; at += 1) sum += blocks[at]?.height ?? 0;
  return sum;
}
