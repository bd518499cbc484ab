// The words of the frame around the views: sections, keys, and what is said when something is missing.

import type { View } from "../state/route";
import type { Theme } from "../state/theme.svelte";
import { duration, gibibytes } from "./words";

const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "long", timeStyle: "short" });

export interface Section {
  view: View;
  name: string;
  /** Which views belong to it besides its own. */
  also: readonly View[];
  adminOnly?: boolean;
}

export const SECTIONS: readonly Section[] = [
  { view: "grid", name: "Fleet", also: ["heat", "node", "gpu"] },
  { view: "table", name: "Table", also: [] },
  { view: "people", name: "People", also: ["person", "job"] },
  { view: "history", name: "History", also: [] },
  { view: "setup", name: "Set-up", also: [], adminOnly: true },
];

export const THEME_WORDS: Record<Theme, string> = {
  system: "Light or dark as the system says",
  light: "Light",
  dark: "Dark",
};

export const KEYS: readonly (readonly [key: string, deed: string])[] = [
  ["/", "find: go to the search box"],
  ["f", "only free GPUs, and all again"],
  ["g", "the grid: a row is a machine, a cell is a GPU"],
  ["h", "the heat map: one square a GPU"],
  ["t", "the table: every column"],
  ["p", "people: who has what"],
  ["y", "history: who had what"],
  ["← → space", "in history: a step back or on, and play"],
  ["l", "back to live"],
  ["d", "roomy or dense rows"],
  ["← → ↑ ↓", "walk the grid, once a cell has the focus; Ctrl with Home or End goes to its ends"],
  ["Enter", "open the GPU"],
  ["Esc", "close what is open"],
  ["?", "this list"],
];

/** "14 free · fleet-smi": what a tab says. */
export function title(free: number | null): string {
  return free === null ? "fleet-smi" : `${free.toLocaleString("en")} free · fleet-smi`;
}

/** What a sheet of paper says of itself. */
export function printed(host: string, now: number, filter: string): string {
  return [host, MOMENT.format(now * 1000), filter && `only ${filter}`].filter(Boolean).join(" · ");
}

/** What the banner says while the connection is lost. */
export function lost(ageSeconds: number | null): string {
  if (ageSeconds === null) return "The hub does not answer. Trying again.";
  return `What you see is what was known ${duration(ageSeconds)} ago. Trying again.`;
}

/** A sum of memory: "587 GiB", "1.8 TiB". */
export function memory(mebibytes: number): string {
  const tebibytes = mebibytes / 2 ** 20;
  return tebibytes >= 1 ? `${tebibytes.toFixed(1)} TiB` : `${gibibytes(mebibytes)} GiB`;
}
