// Light or dark: as the system says, or as the reader chose. Kept in this browser. Paper is light.

import { flushSync } from "svelte";
import { keep, kept } from "./kept";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

class ThemeChoice {
  private chosen = $state<Theme>(THEMES.find((each) => each === kept("theme")) ?? "system");
  isPrinting = $state(false);

  constructor() {
    this.show();
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  get choice(): Theme {
    return this.chosen;
  }

  /** What is drawn in: the choice, but on paper light. */
  get shown(): Theme {
    return this.isPrinting ? "light" : this.chosen;
  }

  /** The next of the three, round and round. */
  next(): void {
    this.chosen = THEMES[(THEMES.indexOf(this.chosen) + 1) % THEMES.length] ?? "system";
    keep("theme", this.chosen);
    this.show();
  }

  /** All of it at once: paper does not wait for the next frame. */
  private print(isPrinting: boolean): void {
    this.isPrinting = isPrinting;
    this.show();
    flushSync();
  }

  private show(): void {
    if (this.shown === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.shown;
  }
}

export const theme = new ThemeChoice();
