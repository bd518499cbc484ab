// Where the reader is, as the address writes it: "#/node/ID", "#/table?q=free+model:A100".

export const VIEWS = ["grid", "table", "heat", "people", "node", "gpu", "setup", "signin"] as const;
export type View = (typeof VIEWS)[number];

export interface Place {
  readonly view: View;
  /** What the view is about: a node's id, a GPU's UUID. */
  readonly argument: string;
  /** The filter, as it was typed. */
  readonly query: string;
}

/** The views of the whole fleet: the filter stays while the reader goes between them. */
export const OF_THE_FLEET: readonly View[] = ["grid", "table", "heat"];

/** The place that a hash means; the grid for one that means nothing. */
export function placeOf(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const [, name = "", ...rest] = path.split("/");
  const view = VIEWS.find((each) => each === name) ?? "grid";
  return { view, argument: decoded(rest.join("/")), query: new URLSearchParams(search).get("q") ?? "" };
}

/** The hash that means a place. */
export function hashOf({ view, argument, query }: Place): string {
  const path = view === "grid" ? "" : argument ? `${view}/${encodeURIComponent(argument)}` : view;
  const search = query ? `?q=${encodeURIComponent(query).replace(/%(20|3A|2C|3E|3C)/g, readable)}` : "";
  return `#/${path}${search}`;
}

/** What need not be escaped there, as a person would write it. */
function readable(escaped: string): string {
  return escaped === "%20" ? "+" : decodeURIComponent(escaped);
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
