// Texts of the search box: placeholder, suggestions and what they mean.

import type { State } from "../feed/state";
import type { Term } from "../feed/types";
import type { MatchCount } from "../state/filterMatch";
import { plural } from "./format";

export const PLACEHOLDER = "Search GPUs, nodes, users";
export const EXAMPLES: readonly string[] = ["free mem>40G", "idle>1h", "-busy"];
export const NARROW_TITLE = "Narrow down";
export const MORE_TITLE = "More filters";
export const SHARE_HINT = "The URL includes the filter";

export const STATE_TERM_MEANING: Record<State, string> = {
  free: "GPUs and MIG instances not in use",
  leased: "reserved or closed, not in use",
  busy: "GPUs in use",
  held: "memory allocated, no work",
  ghost: "memory in use by no known process",
  broken: "GPUs that need repair",
  unknown: "on silent nodes, or not readable",
};

/** Terms that work in every fleet. */
export const METRIC_TERMS: readonly { word: string; key: Term["key"]; op: "<" | ">"; bound: number; meaning: string }[] = [
  { word: "mem>40G", key: "mem", op: ">", bound: 40 * 2 ** 30, meaning: "more than 40 GiB of memory free" },
  { word: "mem>20G", key: "mem", op: ">", bound: 20 * 2 ** 30, meaning: "more than 20 GiB of memory free" },
  { word: "used>1G", key: "used", op: ">", bound: 2 ** 30, meaning: "more than 1 GiB of memory in use" },
  { word: "total>40G", key: "total", op: ">", bound: 40 * 2 ** 30, meaning: "more than 40 GiB of memory in total" },
  { word: "load<10", key: "load", op: "<", bound: 10, meaning: "load below 10 %" },
  { word: "idle>1h", key: "idle", op: ">", bound: 3600, meaning: "idle for more than an hour" },
  { word: "temp>80", key: "temp", op: ">", bound: 80, meaning: "hotter than 80 °C" },
  { word: "power>300", key: "power", op: ">", bound: 300, meaning: "drawing more than 300 W" },
];

export function userMeaning(user: string): string {
  return `GPUs used by ${user}`;
}

export function modelMeaning(others: readonly string[]): string {
  return others.length === 0 ? "by model" : `also ${others.slice(0, 4).join(", ")}`;
}

export function labelMeaning(name: string): string {
  return `nodes by label ${name}`;
}

export const NODE_MEANING = "nodes by name, * matches anything";

/** "11 GPUs, 3 MIG instances". */
export function matchCount({ gpus, instances }: MatchCount): string {
  if (instances === 0) return plural(gpus, "GPU");
  const parts = plural(instances, "MIG instance");
  return gpus === 0 ? parts : `${plural(gpus, "GPU")}, ${parts}`;
}
