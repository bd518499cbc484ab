// Views that the user saved under a name: addresses, kept in this browser.

import { loadSetting, saveSetting } from "./storage";

export interface SavedView {
  readonly name: string;
  readonly address: string;
}

const MAX_VIEWS = 30;

class SavedViews {
  list = $state.raw<readonly SavedView[]>(parse(loadSetting("views")));

  /** Save an address; one of the same name is replaced. */
  save(name: string, address: string): void {
    this.set([{ name, address }, ...this.list.filter((view) => view.name !== name)].slice(0, MAX_VIEWS));
  }

  remove(name: string): void {
    this.set(this.list.filter((view) => view.name !== name));
  }

  private set(list: readonly SavedView[]): void {
    this.list = list;
    saveSetting("views", JSON.stringify(list));
  }
}

/** Anything else than a list of names and addresses within the page is no saved view. */
function parse(text: string | null): SavedView[] {
  try {
    const found: unknown = JSON.parse(text ?? "[]");
    return Array.isArray(found) ? found.filter(isView) : [];
  } catch {
    return [];
  }
}

function isView(value: unknown): value is SavedView {
  const { name, address } = (value ?? {}) as Partial<SavedView>;
  return typeof name === "string" && typeof address === "string" && address.startsWith("#/");
}

export const savedViews = new SavedViews();
