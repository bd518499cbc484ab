// Where the reader is, as the address writes it: "#/node/ID", "#/table?q=free+model:A100", "#/?at=2026-11-15T03:12Z".

export const VIEWS = ["grid", "table", "heat", "people", "history", "node", "gpu", "person", "job", "setup", "signin"] as const;
export type View = (typeof VIEWS)[number];

export interface Place {
  readonly view: View;
  /** What the view is about: a node's id, a GPU's UUID, a person, a job. */
  readonly argument: string;
  /** The filter, as it was typed. */
  readonly query: string;
  /** The moment that is looked at, in seconds since 1970; `null` is now. */
  readonly at: number | null;
  /** How far back the view looks: "24h"; empty is the view's own choice. */
  readonly range: string;
}

/** The views of the whole fleet: the filter stays while the reader goes between them. */
export const OF_THE_FLEET: readonly View[] = ["grid", "table", "heat", "history"];
/** The views that can show another moment than now: it stays while the reader goes between them. */
export const OF_A_MOMENT: readonly View[] = [...OF_THE_FLEET, "people", "node", "gpu"];

/** The place that a hash means; the grid for one that means nothing. */
export function placeOf(hash: string): Place {
  const [path = "", search = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const [, name = "", ...rest] = path.split("/");
  const view = VIEWS.find((each) => each === name) ?? "grid";
  const words = new URLSearchParams(search);
  return {
    view,
    argument: decoded(rest.join("/")),
    query: words.get("q") ?? "",
    at: momentOf(words.get("at")),
    range: words.get("range") ?? "",
  };
}

/** The hash that means a place. */
export function hashOf({ view, argument, query, at, range }: Place): string {
  const path = view === "grid" ? "" : argument ? `${view}/${encodeURIComponent(argument)}` : view;
  const words = [query && `q=${readable(query)}`, at === null ? "" : `at=${written(at)}`, range && `range=${readable(range)}`].filter(Boolean);
  return `#/${path}${words.length ? `?${words.join("&")}` : ""}`;
}

/** A moment as anybody can read it, the same in every time zone: "2026-11-15T03:12Z". */
function written(at: number): string {
  return new Date(at * 1000).toISOString().replace(/(:00)?\.000Z$/, "Z");
}

function momentOf(text: string | null): number | null {
  const milliseconds = Date.parse(text ?? "");
  return Number.isNaN(milliseconds) ? null : Math.round(milliseconds / 1000);
}

/** What need not be escaped there, as a person would write it. */
function readable(text: string): string {
  return encodeURIComponent(text).replace(/%(20|3A|2C|3E|3C)/g, (escaped) => (escaped === "%20" ? "+" : decodeURIComponent(escaped)));
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
