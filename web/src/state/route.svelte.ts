// The place the reader is at, kept in the address: it can be shared, and the browser's back works.

import { OF_THE_FLEET, type Place, type View, hashOf, placeOf } from "./route";

class Route {
  private place = $state.raw<Place>(placeOf(location.hash));

  constructor() {
    addEventListener("hashchange", () => (this.place = placeOf(location.hash)));
  }

  get view(): View {
    return this.place.view;
  }

  get argument(): string {
    return this.place.argument;
  }

  /** The text of the filter. */
  get query(): string {
    return this.place.query;
  }

  /** The address of a place, for a link. */
  to(view: View, argument = "", query = OF_THE_FLEET.includes(view) ? this.query : ""): string {
    return hashOf({ view, argument, query });
  }

  go(view: View, argument = ""): void {
    location.hash = this.to(view, argument);
  }

  /** Show only what matches. Typing makes no steps to go back by. */
  filter(text: string): void {
    this.place = { ...this.place, query: text };
    history.replaceState(null, "", hashOf(this.place));
  }
}

export const route = new Route();
