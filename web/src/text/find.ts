// What the search box says: the words it offers, and what each would find.

import type { State } from "../feed/event";
import { counted } from "./words";

export const PLACEHOLDER = "Find a GPU, node or person";
export const TRY: readonly string[] = ["free mem>40G", "idle>1h", "-busy"];
export const NARROW = "Narrow it down";
export const MORE = "More words you can use";
export const SHARED = "The filter is in the address: share it";

export const STATE_MEANING: Record<State, string> = {
  free: "GPUs, or parts of GPUs, that nobody is on",
  leased: "taken or closed, though nobody is seen on them",
  busy: "GPUs somebody uses",
  held: "memory kept, no work done",
  ghost: "memory in use that no process accounts for",
  broken: "GPUs that somebody must see to",
  unknown: "on silent machines, or not telling",
};

/** Words that mean something in every fleet. */
export const FIGURE_WORDS: readonly { word: string; key: string; op: "<" | ">"; bound: number; meaning: string }[] = [
  { word: "mem>40G", key: "mem", op: ">", bound: 40 * 2 ** 30, meaning: "more than 40 GiB of memory not used" },
  { word: "mem>20G", key: "mem", op: ">", bound: 20 * 2 ** 30, meaning: "more than 20 GiB of memory not used" },
  { word: "used>1G", key: "used", op: ">", bound: 2 ** 30, meaning: "more than 1 GiB of memory in use" },
  { word: "total>40G", key: "total", op: ">", bound: 40 * 2 ** 30, meaning: "GPUs with more than 40 GiB in all" },
  { word: "load<10", key: "load", op: "<", bound: 10, meaning: "used to less than 10 %" },
  { word: "idle>1h", key: "idle", op: ">", bound: 3600, meaning: "processes that did nothing for an hour" },
  { word: "temp>80", key: "temp", op: ">", bound: 80, meaning: "hotter than 80 °C" },
  { word: "power>300", key: "power", op: ">", bound: 300, meaning: "drawing more than 300 W" },
];

export function userMeaning(user: string): string {
  return `everything ${user} is on`;
}

export function modelMeaning(others: readonly string[]): string {
  return others.length === 0 ? "by model" : `also ${others.slice(0, 4).join(", ")}`;
}

export function labelMeaning(name: string): string {
  return `machines by their label ${name}`;
}

export const NODE_MEANING = "machines by name, * is anything";

export function left(count: number): string {
  return counted(count, "GPU");
}
