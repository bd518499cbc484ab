// Placement of a popover: next to its anchor, never over it.

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

/** Below the anchor, aligned with its right edge; or else above, left or right of it. */
export function placePopover(anchor: Box, popover: Size, view: Box): { left: number; top: number } {
  const right = anchor.left + anchor.width;
  const below = anchor.top + anchor.height + GAP;
  const above = anchor.top - GAP - popover.height;
  const left = clamp(right - popover.width, view.left + MARGIN, view.left + view.width - popover.width - MARGIN);
  if (below + popover.height <= view.top + view.height - MARGIN) return { left, top: below };
  if (above >= view.top + MARGIN) return { left, top: above };
  const top = clamp(anchor.top, view.top + MARGIN, view.top + view.height - popover.height - MARGIN);
  const leftSide = anchor.left - GAP - popover.width;
  if (leftSide >= view.left + MARGIN) return { left: leftSide, top };
  if (right + GAP + popover.width <= view.left + view.width - MARGIN) return { left: right + GAP, top };
  return { left, top: below };
}

/** Limit to a range; to `low` if the range is empty. */
function clamp(value: number, low: number, high: number): number {
  return Math.max(low, Math.min(value, high));
}
