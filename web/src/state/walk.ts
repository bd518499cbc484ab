// Walking the grid by arrow keys: one step, from place to place.

/** A row of the grid, and a place in it: 0 is the node's name, 1 the first GPU. */
export interface Spot {
  readonly row: number;
  readonly place: number;
}

export type Places = readonly (unknown | null)[];
const PAGE = 10;

/** Where a key leads; `null` for a key that leads nowhere. Empty places are stepped over. */
export function walked(rows: readonly Places[], columns: number, at: Spot, key: string): Spot | null {
  const places = rows[at.row] ?? [];
  switch (key) {
    case "ArrowRight":
      return { ...at, place: following(places, at.place) };
    case "ArrowLeft":
      return { ...at, place: preceding(places, at.place - 1) };
    case "Home":
      return { ...at, place: 0 };
    case "End":
      return { ...at, place: preceding(places, places.length) };
    case "Control+Home":
      return { row: 0, place: 0 };
    case "Control+End":
      return { row: rows.length - 1, place: preceding(rows.at(-1) ?? [], rows.at(-1)?.length ?? 0) };
    case "ArrowDown":
      return vertical(rows, columns, at, 1);
    case "ArrowUp":
      return vertical(rows, columns, at, -1);
    case "PageDown":
      return toRow(rows, columns, at, Math.min(rows.length - 1, at.row + PAGE), 0);
    case "PageUp":
      return toRow(rows, columns, at, Math.max(0, at.row - PAGE), 0);
    default:
      return null;
  }
}

/** A line down or up: within the node where its GPUs take several lines, else to its neighbour. */
function vertical(rows: readonly Places[], columns: number, at: Spot, step: 1 | -1): Spot {
  const places = rows[at.row] ?? [];
  const within = at.place + step * columns;
  if (at.place > 0 && within > 0 && within <= places.length) {
    const place = preceding(places, within);
    if (place > at.place || step < 0) return { ...at, place };
  }
  const row = at.row + step;
  const next = rows[row];
  if (!next) return at;
  return toRow(rows, columns, at, row, step > 0 ? 0 : Math.ceil(next.length / columns) - 1);
}

function toRow(rows: readonly Places[], columns: number, at: Spot, row: number, line: number): Spot {
  const inLine = at.place === 0 ? 0 : ((at.place - 1) % columns) + 1;
  return { row, place: inLine === 0 ? 0 : preceding(rows[row] ?? [], line * columns + inLine) };
}

function following(places: Places, from: number): number {
  for (let place = from + 1; place <= places.length; place += 1) if (places[place - 1] != null) return place;
  return from;
}

/** This place, or the nearest before it that is not empty; the name at last. */
function preceding(places: Places, from: number): number {
  for (let place = from; place > 0; place -= 1) if (places[place - 1] != null) return place;
  return 0;
}
