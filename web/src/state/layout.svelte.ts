// The user's layout of the grid: density, sort order, grouping. Kept in this browser.

import { type Arrangement, type Grouping, type Sort, SORTS, defaultGrouping, groupings } from "./arrange";
import type { Fleet } from "./fleet";
import { loadSetting, saveSetting } from "./storage";

export const DENSITIES = ["comfortable", "compact"] as const;
export type Density = (typeof DENSITIES)[number];

class Layout {
  density = $state.raw<Density>(DENSITIES.find((each) => each === loadSetting("density")) ?? "comfortable");
  private sort = $state.raw<Sort>(SORTS.find((each) => each === loadSetting("sort")) ?? "name");
  private grouping = $state.raw<string | null>(loadSetting("grouping"));

  setDensity(density: Density): void {
    this.density = density;
    saveSetting("density", density);
  }

  setSort(sort: Sort): void {
    this.sort = sort;
    saveSetting("sort", sort);
  }

  setGrouping(grouping: Grouping): void {
    this.grouping = grouping;
    saveSetting("grouping", grouping);
  }

  /** The chosen arrangement; the default grouping if this fleet does not have the chosen label. */
  arrangement(fleet: Fleet): Arrangement {
    const grouping = groupings(fleet).find((each) => each === this.grouping) ?? defaultGrouping(fleet);
    return { sort: this.sort, grouping };
  }
}

export const layout = new Layout();
