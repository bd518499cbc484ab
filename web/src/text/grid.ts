// What the grid says: the words of a cell, of a heading, of a silent node.

import type { State, Verdict } from "../feed/event";
import type { Grouping, Sort } from "../state/arrange";
import type { Gpu, Instance, Node } from "../state/fleet";
import type { Kept } from "../state/held";
import type { Density } from "../state/layout.svelte";
import { loadStep } from "../state/totals";
import type { Vacancy } from "../state/vacant";
import { NOT_MEASURED, duration, gibibytes, initials, shortModel } from "./words";

export const SORT_WORDS: Record<Sort, string> = {
  name: "name",
  free: "most free",
  load: "load",
  attention: "needs attention",
};
export const DENSITY_WORDS: Record<Density, string> = { comfortable: "Comfortable", compact: "Compact" };
export const HEAT_MAP = "Heat map";
export const LIST = "List";
export const LEGEND: Record<State, string> = {
  free: "free",
  leased: "leased, taken or closed",
  busy: "busy",
  held: "held, doing nothing",
  ghost: "ghost, no owner",
  broken: "broken",
  unknown: "unknown, silent",
};
export const SQUARES: readonly [State, string][] = [
  ["free", "hollow"],
  ["leased", "a dot in a frame"],
  ["busy", "solid"],
  ["held", "two bars"],
  ["ghost", "striped"],
  ["broken", "crossed"],
  ["unknown", "struck out"],
];

/** The words of one cell: who, in short, how many more people, what is below, and a figure with its unit. */
export interface CellWords {
  readonly who: string;
  readonly short: string;
  readonly more: readonly string[];
  readonly below: string;
  readonly figure: string;
  readonly unit: string;
}

export function cellWords({ brief, figures }: Gpu, now: number): CellWords {
  const { verdict, memory_total_mebibytes: total } = brief;
  const { state } = verdict;
  const [busy, used] = figures;
  const users = verdict.users ?? [];
  const who = whoHas(verdict);
  const size = state === "free" && total !== null;
  const percent = (state === "busy" || state === "ghost") && busy !== null;
  return {
    who,
    short: users[0] === undefined ? (state === "ghost" ? "?" : who) : initials(users[0]),
    more: users.slice(1),
    below: below(verdict, used, total, now),
    figure: size ? gibibytes(total) : percent ? String(busy) : "",
    unit: size ? " G" : percent ? "%" : "",
  };
}

/** Who has a GPU or an instance; its state, where that is nobody. */
export function whoHas({ state, users }: Verdict): string {
  if (users?.[0] !== undefined) return users[0];
  if (state === "ghost") return "no owner";
  if (state === "unknown") return NOT_MEASURED;
  return state === "busy" || state === "held" ? "somebody" : state;
}

function below(verdict: Verdict, used: number | null, total: number | null, now: number): string {
  switch (verdict.state) {
    case "free":
      return `for ${duration(now - verdict.since)}`;
    case "held":
      return `idle ${duration(now - (verdict.idle_since ?? verdict.since))}`;
    case "unknown":
      return verdict.was === null ? (verdict.reason ?? "cannot tell") : `was ${verdict.was}`;
    case "leased":
    case "broken":
      return verdict.reason ?? "";
    default:
      return used === null && total === null ? "" : `${gibibytes(used)}/${gibibytes(total)} G`;
  }
}

/** The strength of a busy fill: the class of its load; none for other states. */
export function loadClass(state: State, busy: number | null): string {
  return state === "busy" ? `load-${loadStep(busy)}` : "";
}

/** How much of its memory is in use, in percent; 0 where that is not known. */
export function filled(used: number | null, total: number | null): number {
  return used !== null && total ? Math.min(100, (100 * used) / total) : 0;
}

/** All of a cell for those who hear it. */
export function spoken({ node, brief, figures, instances }: Gpu, words: CellWords): string {
  const where = `${node.brief.name} GPU ${brief.index}, ${brief.verdict.state}`;
  const who = brief.verdict.users?.length ? `, ${brief.verdict.users.join(", ")}` : "";
  const busy = figures[0] === null ? "" : `, ${figures[0]} percent busy`;
  const slices = instances.length ? `, ${instances.length} instances` : "";
  return `${where}${who}, ${words.below}${busy}${slices}`;
}

/** How an instance is named in its slice: in full where it is wide. */
export function sliceWord({ brief }: Instance, wide: boolean): string {
  const { users, state } = brief.verdict;
  if (wide) return whoHas(brief.verdict);
  return users?.[0] === undefined ? (state === "busy" ? "?" : "") : initials(users[0]).charAt(0);
}

/** The model in as few letters as a narrow place has: "A100 40G". */
export function narrowModel(name: string | null): string {
  return shortModel(name).replace(/[- ](SXM\d?|HBM\w*|PCIe|NVL)\b/gi, "").replace(/[- ](\d+) ?GB\b/gi, " $1G");
}

export function models({ brief }: Node, said = shortModel): string {
  return [...new Set(brief.gpus.map((gpu) => said(gpu.name)))].join(", ") || "no GPU";
}

/** What a node is: "A100 40G · 570.172". */
export function kindOfNode(node: Node): string {
  const names = models(node, narrowModel);
  const driver = node.brief.driver_version?.split(".").slice(0, 2).join(".");
  return driver ? `${names} · ${driver}` : names;
}

export function silence(node: Node, now: number): string {
  return node.figures.heardAt === null ? "never heard of" : `silent for ${duration(now - node.figures.heardAt)}`;
}

/** Where the data of a node comes from, and how old it is. */
export function origin({ brief, figures }: Node, now: number): string {
  const way = brief.via === null ? "" : `by ${brief.via}, `;
  return figures.heardAt === null ? "never heard of" : `${way}${duration(now - figures.heardAt)} ago`;
}

export function groupingWord(grouping: Grouping): string {
  return grouping.startsWith("label:") ? grouping.slice("label:".length) : grouping;
}

/** The words of a heading; of those that have none, what they lack. */
export function heading(name: string | null, grouping: Grouping): string {
  if (grouping === "model") return shortModel(name);
  if (grouping === "user") return name ?? "nobody";
  return name === null ? `no ${groupingWord(grouping)}` : `${groupingWord(grouping)} ${name}`;
}

/** As `heading`, for where there is hardly room. */
export function caption(name: string | null, grouping: Grouping): string {
  return name !== null && grouping.startsWith("label:") ? name : heading(name, grouping);
}

/** The people on these GPUs, at most three by name. */
export function peopleOn(gpus: readonly Gpu[]): string {
  const people = [...new Set(gpus.flatMap((gpu) => gpu.brief.verdict.users ?? []))];
  const more = people.length > 3 ? ` +${people.length - 3}` : "";
  return people.slice(0, 3).join(", ") + more || "nobody";
}

/** "GPU 0, 1". */
export function places(gpus: readonly Gpu[]): string {
  return `GPU ${gpus.map((gpu) => gpu.brief.index).join(", ")}`;
}

export function vacancyWords({ gpus, mebibytes, since }: Vacancy, now: number): string {
  return `${shortModel(gpus[0]?.brief.name ?? null)} · ${gibibytes(mebibytes)} GiB · free ${duration(now - since)}`;
}

export function keptWords({ idleSince, mebibytes }: Kept, now: number): string {
  return `idle for ${duration(now - idleSince)} · keeps ${gibibytes(mebibytes)} GiB`;
}

/** A line to send to somebody who keeps GPUs that do nothing. */
export function question({ user, node, gpus, idleSince }: Kept, now: number): string {
  return `${user}, do you still need ${places(gpus)} on ${node.brief.name}? No work for ${duration(now - idleSince)}.`;
}
