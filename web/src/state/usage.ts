// Rows of the usage table, by user, group, node or model: current GPUs and totals over a period.

import type { Person, Sums, Usages } from "../feed/types";

export const ZERO_SUMS: Sums = { gpu_seconds: 0, measured_seconds: 0, busy_seconds: 0, idle_seconds: 0, energy_joules: 0 };

export interface UsageRow {
  readonly name: string;
  /** What they use now; `null` if nothing, or if the row is not a user. */
  readonly person: Person | null;
  readonly sums: Sums;
  /** GPU-seconds per day, oldest first; empty if not loaded. */
  readonly daily: readonly number[];
}

/**
 * One row per name in `usages` or `people`, the most GPU-hours first. `trend` has the daily figures;
 * `people` is empty unless the names are those of users.
 */
export function usageRows(people: readonly Person[], usages: Usages | null, trend: Usages | null): UsageRow[] {
  const sums = new Map(usages?.rows.map((row) => [row.name, row.sums]));
  const daily = new Map(trend?.rows.map((row) => [row.name, row.daily]));
  const persons = new Map(people.map((person) => [person.user, person]));
  const names = [...new Set([...sums.keys(), ...persons.keys()])];
  return names
    .map((name) => ({ name, person: persons.get(name) ?? null, sums: sums.get(name) ?? ZERO_SUMS, daily: daily.get(name) ?? [] }))
    .sort((a, b) => b.sums.gpu_seconds - a.sums.gpu_seconds || (b.person?.gpus ?? 0) - (a.person?.gpus ?? 0));
}

/** The busy share of the measured time, from 0 to 1; `null` if nothing was measured. */
export function busyShare({ busy_seconds: busy, measured_seconds: measured }: Sums): number | null {
  return measured > 0 ? busy / measured : null;
}
