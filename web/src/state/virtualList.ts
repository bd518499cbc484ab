// A virtual list: only the items in view are in the DOM, so that a thousand nodes cost as much as thirty.

export interface ListItem {
  readonly key: string;
  readonly height: number;
}

/** The items from `from` up to but excluding `to`, and the heights of what is left out above and below. */
export interface VisibleItems {
  readonly from: number;
  readonly to: number;
  readonly above: number;
  readonly below: number;
}

/** The items that overlap the range from `top` to `bottom`. */
export function visibleItems(items: readonly ListItem[], top: number, bottom: number): VisibleItems {
  let [from, to, above, offset] = [0, 0, 0, 0];
  for (const { height } of items) {
    if (offset + height <= top) {
      from += 1;
      above += height;
    }
    if (offset < bottom) to += 1;
    offset += height;
  }
  from = Math.min(from, to);
  return { from, to, above, below: offset - above - heightBetween(items, from, to) };
}

/** The height of the items from `from` up to but excluding `to`. */
export function heightBetween(items: readonly ListItem[], from: number, to: number): number {
  let sum = 0;
  for (let at = from; at < to; at += 1) sum += items[at]?.height ?? 0;
  return sum;
}
