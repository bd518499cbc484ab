// Texts of the grid: legends, cells, headings, nodes; and of the lists of free and idle GPUs.

import type { State } from "../feed/state";
import type { VerdictPayload } from "../feed/types";
import type { Group, Grouping, Sort } from "../state/arrange";
import type { Gpu, Instance, Node } from "../state/fleet";
import type { MatchCount } from "../state/filterMatch";
import { type FreeNode, bookedBy } from "../state/freeGpus";
import type { IdleHolding } from "../state/idleHoldings";
import type { Density } from "../state/layout.svelte";
import { loadStep } from "../state/totals";
import { UNKNOWN, cardSize, duration, gibibytes, plural, shortDuration, shortModel } from "./format";
import { matchCount } from "./search";

export const SORT_LABELS: Record<Sort, string> = {
  name: "name",
  free: "most free",
  load: "load",
  attention: "needs attention",
};
export const DENSITY_LABELS: Record<Density, string> = { comfortable: "Grid", compact: "Compact" };
export const HEATMAP_LABEL = "Heat map";
export const LIST_LABEL = "List";
export const STATE_LEGEND: Record<State, string> = {
  free: "free",
  leased: "leased",
  busy: "busy",
  held: "held, idle",
  ghost: "ghost, no owner",
  broken: "broken",
  unknown: "unknown, silent",
};
/** How a state is drawn in the heat map. */
export const HEATMAP_LEGEND: readonly [State, string][] = [
  ["free", "hollow"],
  ["leased", "dot in a frame"],
  ["busy", "solid"],
  ["held", "two bars"],
  ["ghost", "striped"],
  ["broken", "crossed"],
  ["unknown", "slashed"],
];

/** The texts of a cell: who, in the corner a figure with its unit, below them a line. */
export interface CellText {
  /** The first user, or else the state. */
  readonly who: string;
  /** The other users. */
  readonly more: readonly string[];
  readonly below: string;
  /** The load or, of a free GPU, the size of its memory; empty if neither applies. */
  readonly figure: string;
  readonly unit: string;
}

export function gridCellText(gpu: Gpu, now: number): CellText {
  const { info, figures } = gpu;
  const { verdict, memory_total_mebibytes: total } = info;
  const { state } = verdict;
  const [busy, used] = figures;
  const users = verdict.users ?? [];
  const who = holderName(verdict);
  const [size, unit] = cardSize(info.nominal_gigabytes, total).split(" ");
  const showsSize = state === "free" && total !== null;
  const showsLoad = (state === "busy" || state === "ghost") && busy !== null;
  return {
    who,
    more: users.slice(1),
    below: bookedText(gpu) || textBelow(verdict, used, total, now),
    figure: showsSize ? (size ?? "") : showsLoad ? String(busy) : "",
    unit: showsSize ? ` ${unit}` : showsLoad ? "%" : "",
  };
}

/** The first user of a GPU or instance, or else its state. */
export function holderName({ state, users }: VerdictPayload): string {
  if (users?.[0] !== undefined) return users[0];
  if (state === "unknown") return UNKNOWN;
  return state === "busy" || state === "held" ? "unknown user" : state;
}

/** The line below in two parts, of which a narrow cell shows only the first: "for 4 h" and " 38", "37/45" and " GiB". */
export function splitBelow(text: string): readonly [string, string] {
  const [, main, rest] = /^(.* h)( \d\d)$/.exec(text) ?? /^(.*)( GiB)$/.exec(text) ?? [];
  return main === undefined || rest === undefined ? [text, ""] : [main, rest];
}

function bookedText(gpu: Gpu): string {
  const owner = bookedBy(gpu);
  return owner === undefined ? "" : `for ${owner}`;
}

function textBelow(verdict: VerdictPayload, used: number | null, total: number | null, now: number): string {
  switch (verdict.state) {
    case "free":
      return `for ${shortDuration(now - verdict.since)}`;
    case "held":
      return `idle ${shortDuration(now - (verdict.idle_since ?? verdict.since))}`;
    case "unknown":
      return verdict.was === null ? (verdict.reason ?? "no data") : `was ${verdict.was}`;
    case "leased":
    case "broken":
      return verdict.reason ?? "";
    default:
      return used === null && total === null ? "" : `${gibibytes(used)}/${gibibytes(total)} GiB`;
  }
}

/** The CSS class for the load of a busy GPU; none for other states. */
export function loadClass(state: State, busy: number | null): string {
  return state === "busy" ? `load-${loadStep(busy)}` : "";
}

/** Memory in use, in percent; 0 if unknown. */
export function fillPercent(used: number | null, total: number | null): number {
  return used !== null && total ? Math.min(100, (100 * used) / total) : 0;
}

/** The label of a cell for screen readers. */
export function cellAriaLabel({ node, info, figures, instances }: Gpu, text: CellText): string {
  const where = `${node.info.name} GPU ${info.index}, ${info.verdict.state}`;
  const who = info.verdict.users?.length ? `, ${info.verdict.users.join(", ")}` : "";
  const busy = figures[0] === null ? "" : `, load ${figures[0]} percent`;
  const slices = instances.map((instance) => `; ${sliceLabel(instance)}`).join("");
  return `${where}${who}, ${text.below}${busy}${slices}`;
}

/** A MIG instance by its profile, state and users: "MIG 1g.10gb, busy, chen". */
export function sliceLabel({ info }: Instance): string {
  const { state, users } = info.verdict;
  return [`MIG ${info.profile ?? "instance"}`, state, ...(users ?? [])].join(", ");
}

/** The profile for a narrow place, its compute slices: "1g". */
export function shortProfile({ info }: Instance): string {
  return info.profile?.split(".")[0] ?? "MIG";
}

/** The model for a narrow place: "A100 40G". */
export function narrowModel(name: string | null): string {
  return shortModel(name).replace(/[- ](SXM\d?|HBM\w*|PCIe|NVL)\b/gi, "").replace(/[- ](\d+) ?GB\b/gi, " $1G");
}

export function modelNames({ info }: Pick<Node, "info">, format = shortModel): string {
  return [...new Set(info.gpus.map((gpu) => format(gpu.name)))].join(", ") || "no GPU";
}

/** Model and driver of a node: "A100 40G · 570.172". */
export function nodeSummary(node: Node): string {
  const names = modelNames(node, narrowModel);
  const driver = node.info.driver_version?.split(".").slice(0, 2).join(".");
  return driver ? `${names} · ${driver}` : names;
}

export function silentText(node: Node, now: number): string {
  return node.figures.reportedAt === null ? "never reported" : `silent for ${duration(now - node.figures.reportedAt)}`;
}

/** Where the data of a node comes from and how old it is: "via push, 4 s ago". */
export function sourceText({ info, figures }: Node, now: number): string {
  const via = info.via === null ? "" : `via ${info.via}, `;
  return figures.reportedAt === null ? "never reported" : `${via}${duration(now - figures.reportedAt)} ago`;
}

/** What of a group matches: "112 GPUs match". */
export function matchText({ gpus, instances }: MatchCount): string {
  return `${matchCount({ gpus, instances })} ${gpus + instances === 1 ? "matches" : "match"}`;
}

/** "1,968 nodes hidden". */
export function hiddenText(nodes: number): string {
  return `${plural(nodes, "node")} hidden`;
}

export function groupingLabel(grouping: Grouping): string {
  return grouping.startsWith("label:") ? grouping.slice("label:".length) : grouping;
}

/** The heading of a group; `null` is the group without a model, user or such a label. */
export function groupHeading(name: string | null, grouping: Grouping): string {
  if (grouping === "model") return shortModel(name);
  if (grouping === "user") return name ?? "no user";
  return name === null ? `no ${groupingLabel(grouping)}` : `${groupingLabel(grouping)} ${name}`;
}

/** How many nodes a group has, and how many are shown: "8 nodes", "14 of 26 nodes". */
export function groupSize({ numbers, nodes = numbers.length }: Group): string {
  return nodes === numbers.length ? plural(nodes, "node") : `${numbers.length} of ${plural(nodes, "node")}`;
}

/** `groupHeading` for a narrow place. */
export function shortGroupHeading(name: string | null, grouping: Grouping): string {
  return name !== null && grouping.startsWith("label:") ? name : groupHeading(name, grouping);
}

/** "12 GPUs on 3 nodes", of the group of a user; of those without one, how many are free. */
export function ownedText({ gpus, free }: { gpus: number; free: number }, { name, numbers }: Group): string {
  return name === null ? `${free} of ${plural(gpus, "GPU")} free` : `${plural(gpus, "GPU")} on ${plural(numbers.length, "node")}`;
}

/** The users of these GPUs, at most three by name. */
export function usersText(gpus: readonly Gpu[]): string {
  const users = [...new Set(gpus.flatMap((gpu) => gpu.info.verdict.users ?? []))];
  const more = users.length > 3 ? ` +${users.length - 3}` : "";
  return users.slice(0, 3).join(", ") + more || "no users";
}

/** "GPU 0, 1". */
export function gpuList(gpus: readonly Gpu[]): string {
  return `GPU ${gpus.map((gpu) => gpu.info.index).join(", ")}`;
}

export function freeText({ gpus, gigabytes, mebibytes, since }: FreeNode, now: number): string {
  return `${shortModel(gpus[0]?.info.name ?? null)} · ${cardSize(gigabytes, mebibytes)} · free ${duration(now - since)}`;
}

/** Of the free MIG instances of a GPU. */
export function freePartsText({ info }: Gpu, since: number, now: number): string {
  return `${shortModel(info.name)} · free ${duration(now - since)}`;
}

export function idleText({ idleSince, mebibytes }: IdleHolding, now: number): string {
  return `idle for ${duration(now - idleSince)} · holds ${gibibytes(mebibytes)} GiB`;
}

/** A message to send to the user of idle GPUs. */
export function askMessage({ user, node, gpus, idleSince }: IdleHolding, now: number): string {
  return `${user}, do you still need ${gpuList(gpus)} on ${node.info.name}? It has been idle for ${duration(now - idleSince)}.`;
}
