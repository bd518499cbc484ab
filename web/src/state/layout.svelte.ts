// How the reader likes the grid: how dense, in which order, in which groups. Kept in this browser.

import { type Choice, type Grouping, SORTS, type Sort, groupings, usualGrouping } from "./arrange";
import type { Fleet } from "./fleet";
import { keep, kept } from "./kept";

export const DENSITIES = ["comfortable", "compact"] as const;
export type Density = (typeof DENSITIES)[number];

class Layout {
  density = $state.raw<Density>(DENSITIES.find((each) => each === kept("density")) ?? "comfortable");
  private sort = $state.raw<Sort>(SORTS.find((each) => each === kept("sort")) ?? "name");
  private grouping = $state.raw<string | null>(kept("grouping"));

  pack(density: Density): void {
    this.density = density;
    keep("density", density);
  }

  order(sort: Sort): void {
    this.sort = sort;
    keep("sort", sort);
  }

  group(grouping: Grouping): void {
    this.grouping = grouping;
    keep("grouping", grouping);
  }

  /** What was chosen, as far as this fleet has it. */
  choice(fleet: Fleet): Choice {
    const grouping = groupings(fleet).find((each) => each === this.grouping) ?? usualGrouping(fleet);
    return { sort: this.sort, grouping };
  }
}

export const layout = new Layout();
