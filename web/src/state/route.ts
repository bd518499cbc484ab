// The current view in the hash of the address: "#/node/ID", "#/table?q=free+model:A100", "#/?at=2026-11-15T03:12Z".

export const VIEWS = ["grid", "table", "heat", "people", "history", "trends", "queue", "node", "gpu", "person", "job", "setup", "signin"] as const;
export type View = (typeof VIEWS)[number];

export interface Address {
  readonly view: View;
  /** The subject of the view: a node id, GPU UUID, user name or job id. */
  readonly argument: string;
  /** The text of the filter. */
  readonly query: string;
  /** The past moment, in seconds since 1970; `null` is now. */
  readonly at: number | null;
  /** The time range: "24h"; empty for the default of the view. */
  readonly range: string;
  /** The part of the range that the plots are zoomed into: "START..END" in UTC; empty if they are not. */
  readonly zoom: string;
  /** The UUID of the GPU of another node that the plots are compared with; empty for none. */
  readonly compare: string;
}

/** The views of the whole fleet; they share the filter. */
export const FLEET_VIEWS: readonly View[] = ["grid", "table", "heat", "history"];
/** The views that can show a past moment; they share it. */
export const PAST_VIEWS: readonly View[] = [...FLEET_VIEWS, "people", "node", "gpu"];

/** Parse a hash; an unknown one is the grid. */
export function parseHash(hash: string): Address {
  const [path = "", search = ""] = hash.replace(/^#/, "").split(/\?(.*)/s);
  const [, name = "", ...rest] = path.split("/");
  const view = VIEWS.find((each) => each === name) ?? "grid";
  const parameters = new URLSearchParams(search);
  return {
    view,
    argument: decode(rest.join("/")),
    query: parameters.get("q") ?? "",
    at: parseMoment(parameters.get("at")),
    range: parameters.get("range") ?? "",
    zoom: parameters.get("zoom") ?? "",
    compare: parameters.get("with") ?? "",
  };
}

/** Format a hash. */
export function formatHash({ view, argument, query, at, range, zoom, compare }: Address): string {
  const path = view === "grid" ? "" : argument ? `${view}/${encodeURIComponent(argument)}` : view;
  const all = { q: query, at: at === null ? "" : formatMoment(at), range, zoom, with: compare };
  const parameters = Object.entries(all).flatMap(([name, value]) => (value ? [`${name}=${name === "at" ? value : escape(value)}`] : []));
  return `#/${path}${parameters.length ? `?${parameters.join("&")}` : ""}`;
}

/** A moment in UTC: "2026-11-15T03:12Z". */
export function formatMoment(at: number): string {
  return new Date(at * 1000).toISOString().replace(/(:00)?\.000Z$/, "Z");
}

export function parseMoment(text: string | null): number | null {
  const milliseconds = Date.parse(text ?? "");
  return Number.isNaN(milliseconds) ? null : Math.round(milliseconds / 1000);
}

/** Escape for a query, but keep what is readable and harmless there. */
function escape(text: string): string {
  return encodeURIComponent(text).replace(/%(20|3A|2C|3E|3C)/g, (escaped) => (escaped === "%20" ? "+" : decodeURIComponent(escaped)));
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
