// The current view, kept in the address: it can be shared, and the browser's back button works.

import { type Address, type View, FLEET_VIEWS, PAST_VIEWS, formatHash, parseHash } from "./route";

class Route {
  private address = $state.raw<Address>(parseHash(location.hash));

  constructor() {
    addEventListener("hashchange", () => (this.address = parseHash(location.hash)));
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
    return formatHash({ view, argument, query, at: PAST_VIEWS.includes(view) ? this.address.at : null, range: "" });
  }

  go(view: View, argument = ""): void {
    location.hash = this.to(view, argument);
  }

  setFilter(text: string): void {
    this.replace({ query: text });
  }

  /** Go to a past moment, or to now with `null`. */
  setMoment(at: number | null): void {
    this.replace({ at: at === null ? null : Math.round(at) });
  }

  setRange(range: string): void {
    this.replace({ range });
  }

  /** Change the address without a history entry: typing and stepping are nothing to go back through. */
  private replace(part: Partial<Address>): void {
    this.address = { ...this.address, ...part };
    history.replaceState(null, "", formatHash(this.address));
  }
}

export const route = new Route();
