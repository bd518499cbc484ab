// Which columns of the table are shown. Kept in this browser.

import { loadSetting, saveSetting } from "./storage";
import type { ColumnKey } from "./tableSort";

const SETTING = "table.hidden";

class TableColumns {
  private hidden = $state.raw<readonly string[]>((loadSetting(SETTING) ?? "").split(" ").filter(Boolean));

  isShown(key: ColumnKey): boolean {
    return !this.hidden.includes(key);
  }

  toggle(key: ColumnKey): void {
    this.set(this.isShown(key) ? [...this.hidden, key] : this.hidden.filter((each) => each !== key));
  }

  showAll(): void {
    this.set([]);
  }

  private set(hidden: readonly string[]): void {
    this.hidden = hidden;
    saveSetting(SETTING, hidden.join(" "));
  }
}

export const tableColumns = new TableColumns();
