// The order of the usage table: by a column, with the idle holders first for those who can ask them.

import { type UsageRow, busyShare } from "./usage";

export type UsageColumn = "name" | "now" | "held" | "since" | "hours" | "busy" | "idle" | "energy" | "change";

export interface UsageSort {
  readonly key: UsageColumn;
  readonly descending: boolean;
}

const NAMES = new Intl.Collator("en", { numeric: true });
const WEEK = 7;
const VALUES: Record<Exclude<UsageColumn, "name">, (row: UsageRow) => number | null> = {
  now: ({ person }) => person?.gpus ?? 0,
  // How long the idle GPUs have been idle decides among equals.
  held: ({ person }) => (person ? person.idle_gpus + Math.min(1e8, person.idle_seconds ?? 0) / 1e9 : 0),
  since: ({ person }) => (person?.since == null ? null : -person.since),
  hours: ({ sums }) => sums.gpu_seconds,
  busy: ({ sums }) => busyShare(sums),
  idle: ({ sums }) => sums.idle_seconds,
  energy: ({ sums }) => sums.energy_joules,
  change: weekChange,
};

/** The rows in order; what is not known comes last either way. */
export function sortUsage(rows: readonly UsageRow[], { key, descending }: UsageSort): UsageRow[] {
  const sign = descending ? -1 : 1;
  if (key === "name") return [...rows].sort((a, b) => sign * NAMES.compare(a.name, b.name));
  const value = VALUES[key];
  return [...rows].sort((a, b) => {
    const [one, other] = [value(a), value(b)];
    if (one === null || other === null) return Number(one === null) - Number(other === null);
    return sign * (one - other) || b.sums.gpu_seconds - a.sums.gpu_seconds;
  });
}

/** The sort after a click on a column: numbers start with the highest. */
export function nextSort(sort: UsageSort, key: UsageColumn): UsageSort {
  return { key, descending: sort.key === key ? !sort.descending : key !== "name" };
}

/** The last seven days relative to the seven before: 0.25 is a quarter more; `null` if there are not two weeks of history. */
export function weekChange({ daily }: Pick<UsageRow, "daily">): number | null {
  if (daily.length < 2 * WEEK) return null;
  const sum = (days: readonly number[]): number => days.reduce((total, seconds) => total + seconds, 0);
  const [before, last] = [sum(daily.slice(-2 * WEEK, -WEEK)), sum(daily.slice(-WEEK))];
  return before > 0 ? last / before - 1 : null;
}
