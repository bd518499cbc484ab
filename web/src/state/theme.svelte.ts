// Light or dark: as the system says, or as the reader chose on this machine.

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];
const KEY = "fleet-smi-theme";

class ThemeChoice {
  private chosen = $state<Theme>("system");

  constructor() {
    this.chosen = THEMES.find((each) => each === remembered()) ?? "system";
    this.show();
  }

  get choice(): Theme {
    return this.chosen;
  }

  set choice(theme: Theme) {
    this.chosen = theme;
    remember(theme);
    this.show();
  }

  /** The next of the three, round and round. */
  next(): void {
    this.choice = THEMES[(THEMES.indexOf(this.chosen) + 1) % THEMES.length] ?? "system";
  }

  private show(): void {
    if (this.chosen === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = this.chosen;
  }
}

// A browser may be told to keep nothing: then the choice is good for this page alone.
function remembered(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function remember(theme: Theme): void {
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    return;
  }
}

export const theme = new ThemeChoice();
