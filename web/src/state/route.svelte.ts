// The current view, kept in the address: it can be shared, and the browser's back button works.

import { type Address, type View, FLEET_VIEWS, PAST_VIEWS, formatHash, parseHash } from "./route";

/** The state of the history entry that was added on entering the past. */
const ENTERED_PAST = "past";

class Route {
  private address = $state.raw<Address>(parseHash(location.hash));
  /** Where to return to after signing in: the last address that was not the form's. */
  private before = "#/";

  constructor() {
    addEventListener("hashchange", () => this.read());
  }

  get returnAddress(): string {
    return this.view === "signin" ? this.before : formatHash(this.address);
  }

  private read(): void {
    if (this.view !== "signin") this.before = formatHash(this.address);
    this.address = parseHash(location.hash);
  }

  get view(): View {
    return this.address.view;
  }

  get argument(): string {
    return this.address.argument;
  }

  /** The text of the filter. */
  get query(): string {
    return this.address.query;
  }

  /** The past moment, in whole seconds; `null` means now, and on views that have no past. */
  get at(): number | null {
    return PAST_VIEWS.includes(this.view) ? this.address.at : null;
  }

  get range(): string {
    return this.address.range;
  }

  /** The address of a view, for a link. */
  to(view: View, argument = "", query = FLEET_VIEWS.includes(view) ? this.query : ""): string {
    return formatHash({ view, argument, query, at: PAST_VIEWS.includes(view) ? this.address.at : null, range: "", zoom: "", compare: "" });
  }

  go(view: View, argument = ""): void {
    location.hash = this.to(view, argument);
  }

  setFilter(text: string): void {
    this.replace({ query: text });
  }

  get zoom(): string {
    return this.address.zoom;
  }

  /** Go to a past moment, or to now with `null`. Entering the past adds a history entry, so that Back leaves it. */
  setMoment(at: number | null): void {
    const moment = at === null ? null : Math.round(at);
    if (this.at === null && moment !== null) this.push({ at: moment }, ENTERED_PAST);
    else this.replace({ at: moment });
  }

  /** Leave the past: by going back to where it was entered, if that is the entry before. */
  leavePast(): void {
    const isEntry = history.state === ENTERED_PAST;
    this.replace({ at: null });
    if (isEntry) history.back();
  }

  setRange(range: string): void {
    this.replace({ range, zoom: "" });
  }

  /** Zoom the plots, or out with ""; Back zooms out, too. */
  setZoom(zoom: string): void {
    if (this.zoom === "" && zoom !== "") this.push({ zoom });
    else this.replace({ zoom });
  }

  /** The UUID of the GPU that the plots are compared with; empty for none. */
  get compare(): string {
    return this.address.compare;
  }

  setCompare(uuid: string): void {
    this.replace({ compare: uuid });
  }

  private push(part: Partial<Address>, state: string | null = null): void {
    this.address = { ...this.address, ...part };
    history.pushState(state, "", formatHash(this.address));
  }

  /** Change the address without a history entry: typing, dragging and stepping are nothing to go back through. */
  private replace(part: Partial<Address>): void {
    this.address = { ...this.address, ...part };
    history.replaceState(history.state, "", formatHash(this.address));
  }
}

export const route = new Route();
