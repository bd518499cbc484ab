// Texts of the frame around the views: sections, shortcuts, banners.

import type { Summary } from "../feed/types";
import type { View } from "../state/route";
import type { Theme } from "../state/theme.svelte";
import type { Totals } from "../state/totals";
import { duration, gibibytes, grouped, plural } from "./format";
import { dateTime, zoneName } from "./time";


export interface Section {
  view: View;
  name: string;
  /** Other views that belong to the section. */
  also: readonly View[];
  adminOnly?: boolean;
}

export const SECTIONS: readonly Section[] = [
  { view: "grid", name: "Fleet", also: ["heat", "node", "gpu"] },
  { view: "table", name: "Table", also: [] },
  { view: "people", name: "People", also: ["person", "job"] },
  { view: "history", name: "History", also: ["trends"] },
  { view: "queue", name: "Queue", also: [] },
  { view: "setup", name: "Setup", also: [], adminOnly: true },
];

export const THEME_LABELS: Record<Theme, string> = {
  system: "Theme: system",
  light: "Theme: light",
  dark: "Theme: dark",
};

/** "14 free · lab.example · fleet-smi": the title of the browser tab. */
export function tabTitle(free: number | null, hub: string): string {
  return [free === null ? "" : `${grouped(free)} free`, hub, "fleet-smi"].filter(Boolean).join(" · ");
}

/** The header of a printed page: hub, time, filter. */
export function printHeader(host: string, now: number, filter: string): string {
  return [host, `${dateTime(now)} ${zoneName(now)}`, filter && `filter: ${filter}`].filter(Boolean).join(" · ");
}

/** The banner while the connection is lost. */
export function connectionLostText(ageSeconds: number | null): string {
  if (ageSeconds === null) return "Cannot reach the hub. Retrying.";
  return `Showing data from ${duration(ageSeconds)} ago. Retrying.`;
}

/** A memory total: "587 GiB", "1.8 TiB". */
export function formatMemory(mebibytes: number): string {
  const tebibytes = mebibytes / 2 ** 20;
  return tebibytes >= 1 ? `${tebibytes.toFixed(1)} TiB` : `${gibibytes(mebibytes)} GiB`;
}

/** "1,249 of 1,300 report". */
export function powerCoverage({ gpusWithPower: known, gpusWithoutPower: unknown }: Pick<Totals, "gpusWithPower" | "gpusWithoutPower">): string {
  return `${grouped(known)} of ${grouped(known + unknown)} report`;
}

export function powerMeaning(totals: Pick<Totals, "gpusWithPower" | "gpusWithoutPower">): string {
  return totals.gpusWithoutPower > 0 ? `Total of the GPUs that report it: ${powerCoverage(totals)}` : "Total of all GPUs";
}

/** What the size of a card means: "cards sold as 48 GB; programs can use 45.0 GiB". */
export function usableText(gigabytes: number, mebibytes: number | undefined): string {
  return mebibytes === undefined ? "" : `cards sold as ${gigabytes} GB; programs can use ${(mebibytes / 1024).toFixed(1)} GiB`;
}

/** "not in use: 11 GPUs, 3 MIG instances". */
export function freeMeaning({ free, free_instances: instances }: Pick<Summary, "free" | "free_instances">): string {
  return `not in use: ${plural(free, "GPU")}, ${plural(instances, "MIG instance")}`;
}
