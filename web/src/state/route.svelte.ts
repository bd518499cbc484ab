// The place the reader is at, kept in the address: it can be shared, and the browser's back works.

import { OF_A_MOMENT, OF_THE_FLEET, type Place, type View, hashOf, placeOf } from "./route";

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

  /** The moment that is looked at, in whole seconds; `null` is now, and where the view knows no other. */
  get at(): number | null {
    return OF_A_MOMENT.includes(this.view) ? this.place.at : null;
  }

  get range(): string {
    return this.place.range;
  }

  /** The address of a place, for a link. */
  to(view: View, argument = "", query = OF_THE_FLEET.includes(view) ? this.query : ""): string {
    return hashOf({ view, argument, query, at: OF_A_MOMENT.includes(view) ? this.place.at : null, range: "" });
  }

  go(view: View, argument = ""): void {
    location.hash = this.to(view, argument);
  }

  /** Show only what matches. Typing makes no steps to go back by. */
  filter(text: string): void {
    this.become({ query: text });
  }

  /** Look at another moment, `null` being now. Neither does travelling. */
  travel(at: number | null): void {
    this.become({ at: at === null ? null : Math.round(at) });
  }

  /** Look so far back. */
  over(range: string): void {
    this.become({ range });
  }

  private become(part: Partial<Place>): void {
    this.place = { ...this.place, ...part };
    history.replaceState(null, "", hashOf(this.place));
  }
}

export const route = new Route();
