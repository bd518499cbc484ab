// The entries of the command palette that match what was typed, the best first.

export interface Entry {
  readonly kind: "view" | "saved view" | "node" | "person" | "action";
  readonly name: string;
  readonly run: () => void;
}

const MAX_ENTRIES = 12;

/** The entries that contain every typed word; names that start with the text come first, then in the given order. */
export function matchEntries(entries: Iterable<Entry>, text: string): Entry[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found: { entry: Entry; rank: number }[] = [];
  for (const entry of entries) {
    const name = entry.name.toLowerCase();
    if (!words.every((word) => name.includes(word) || entry.kind.includes(word))) continue;
    found.push({ entry, rank: words[0] === undefined || name.startsWith(words[0]) ? 0 : 1 });
  }
  return found.sort((a, b) => a.rank - b.rank).slice(0, MAX_ENTRIES).map(({ entry }) => entry);
}
