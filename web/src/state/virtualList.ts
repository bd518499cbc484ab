// A virtual list: only the items in view are in the DOM, so that a thousand nodes cost as much as thirty.

export interface ListItem {
  readonly key: string;
  readonly height: number;
}

/** Where each item starts, and where the last one ends. */
export function offsetsOf(items: readonly ListItem[]): Float64Array {
  const offsets = new Float64Array(items.length + 1);
  items.forEach(({ height }, at) => (offsets[at + 1] = (offsets[at] ?? 0) + height));
  return offsets;
}

/** The items that overlap the range from `top` to `bottom`: from `from` up to but excluding `to`. */
export function visibleItems(offsets: Float64Array, top: number, bottom: number): { from: number; to: number } {
  const count = offsets.length - 1;
  const to = Math.min(count, firstFrom(offsets, bottom));
  return { from: Math.max(0, Math.min(to, firstFrom(offsets, top, true) - 1)), to };
}

/** The first offset that is at least `value`, or that is greater; by bisection. */
function firstFrom(offsets: Float64Array, value: number, greater = false): number {
  let [low, high] = [0, offsets.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const offset = offsets[middle] ?? 0;
    if (greater ? offset > value : offset >= value) high = middle;
    else low = middle + 1;
  }
  return low;
}
