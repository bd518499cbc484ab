// Where a card floats: beside what it is about, and never over it.

export interface Box {
  readonly left: number;
  readonly top: number;
  readonly width: number;
  readonly height: number;
}
export interface Size {
  readonly width: number;
  readonly height: number;
}

const GAP = 6;
const MARGIN = 8;

/** Below it and flush with its right edge; above, left or right of it where there is no room. */
export function beside(about: Box, card: Size, view: Box): { left: number; top: number } {
  const right = about.left + about.width;
  const below = about.top + about.height + GAP;
  const above = about.top - GAP - card.height;
  const left = clamped(right - card.width, view.left + MARGIN, view.left + view.width - card.width - MARGIN);
  if (below + card.height <= view.top + view.height - MARGIN) return { left, top: below };
  if (above >= view.top + MARGIN) return { left, top: above };
  const top = clamped(about.top, view.top + MARGIN, view.top + view.height - card.height - MARGIN);
  const before = about.left - GAP - card.width;
  if (before >= view.left + MARGIN) return { left: before, top };
  if (right + GAP + card.width <= view.left + view.width - MARGIN) return { left: right + GAP, top };
  return { left, top: below };
}

/** Between both; the lower one where they cross. */
function clamped(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(value, high));
}
