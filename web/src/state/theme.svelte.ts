// The theme: system, light or dark. Kept in this browser. Print is always light.

import { flushSync } from "svelte";
import { loadSetting, saveSetting } from "./storage";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

class ThemeChoice {
  private chosen = $state<Theme>(THEMES.find((each) => each === loadSetting("theme")) ?? "system");
  isPrinting = $state(false);

  constructor() {
    this.apply();
    addEventListener("beforeprint", () => this.print(true));
    addEventListener("afterprint", () => this.print(false));
  }

  get choice(): Theme {
    return this.chosen;
  }

  /** The theme to draw in: the chosen one, or light in print. */
  get shown(): Theme {
    return this.isPrinting ? "light" : this.chosen;
  }

  /** Switch to the next theme. */
  next(): void {
    this.chosen = THEMES[(THEMES.indexOf(this.chosen) + 1) % THEMES.length] ?? "system";
    saveSetting("theme", this.chosen);
    this.apply();
  }

  /** Apply synchronously: the browser prints without waiting for the next frame. */
  private print(isPrinting: boolean): void {
    this.isPrinting = isPrinting;
    this.apply();
    flushSync();
  }

  private apply(): void {
    if (this.shown === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.shown;
  }
}

export const theme = new ThemeChoice();
