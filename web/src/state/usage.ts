// What people hold now beside what they came to over a while: one row each.

import type { Sums, Usages } from "../feed/history";
import type { Person } from "./people.svelte";

export const NO_SUMS: Sums = { gpu_seconds: 0, measured_seconds: 0, busy_seconds: 0, idle_seconds: 0, energy_joules: 0 };

export interface UsageRow {
  readonly name: string;
  /** What they have now; `null` who has nothing, and what is no person. */
  readonly person: Person | null;
  readonly sums: Sums;
  /** GPU-seconds a day, the newest last. */
  readonly daily: readonly number[];
}

/** Everybody who has something now or had something then, the most GPU-hours first. */
export function usageRows(people: readonly Person[], usages: Usages | null, trend: Usages | null): UsageRow[] {
  const sums = new Map(usages?.rows.map((row) => [row.name, row.sums]));
  const daily = new Map(trend?.rows.map((row) => [row.name, row.daily]));
  const persons = new Map(people.map((person) => [person.user, person]));
  const names = [...new Set([...sums.keys(), ...persons.keys()])];
  return names
    .map((name) => ({ name, person: persons.get(name) ?? null, sums: sums.get(name) ?? NO_SUMS, daily: daily.get(name) ?? [] }))
    .sort((a, b) => b.sums.gpu_seconds - a.sums.gpu_seconds || (b.person?.gpus ?? 0) - (a.person?.gpus ?? 0));
}

/** How much of the time that was measured was work. */
export function busyShare({ busy_seconds: busy, measured_seconds: measured }: Sums): number | null {
  return measured > 0 ? busy / measured : null;
}
