// Texts of history: who used a GPU, totals.

import type { ApiError } from "../feed/client";
import type { GpuOfNode, RibbonPoint, Summary } from "../feed/types";
import type { Range } from "../state/range";
import { DAY_SECONDS } from "../state/ticks";
import { type Holding, type Segment, IN_PARTS } from "../state/timeline";
import { UNKNOWN, duration, grouped, plural } from "./format";
import { HIDDEN_NAME } from "./people";
import { momentText, spanText } from "./time";

/** What the hub sends as the user of a process whose owner it cannot see. */
const HIDDEN = "(unseen)";

export const RANGE_LABELS: Record<Range, string> = { "1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 d", "30d": "30 d" };
export const RANGE_NAMES: Record<Range, string> = {
  "1h": "last hour",
  "6h": "last 6 hours",
  "24h": "last 24 hours",
  "7d": "last 7 days",
  "30d": "last 30 days",
};
export const SILENT = "silent";
export const NO_HISTORY = "No history";

/** Why there is no history of a node. */
export function noHistoryText({ status, code, message }: ApiError): string {
  return code === "unknown_node" || status === 400 ? "no history yet" : message;
}

/** "13 of 14 nodes reporting." */
export function coverageText({ nodes, nodes_reporting: reporting }: Pick<Summary, "nodes" | "nodes_reporting">): string {
  return `${grouped(reporting)} of ${plural(nodes, "node")} reporting.`;
}

/** The label of a block: "priya", "ivan idle", "no owner"; empty if the GPU was free. */
export function blockLabel({ state, user, others }: Holding): string {
  const who = userName(user) + (others > 0 ? ` +${others}` : "");
  switch (state) {
    case null:
      return SILENT;
    case "free":
      return "";
    case "busy":
      return who || HIDDEN_NAME;
    case "held":
      return who ? `${who} idle` : "idle";
    case "leased":
      return who || state;
    case "ghost":
      return "no owner";
    default:
      return state;
  }
}

/** "GPU 0: priya and 1 more, busy, 94 %, 22:20 to 12:50". */
export function blockAriaLabel(segment: Segment, gpus: string): string {
  const { state, user, others, busyPercent } = segment;
  const who = user ? `${userName(user)}${others > 0 ? ` and ${others} more` : ""}, ` : "";
  const busy = state === "busy" && busyPercent !== null ? `, ${Math.round(busyPercent)} %` : "";
  return `${gpus}: ${who}${state ?? SILENT}${busy}, ${spanText(segment.start, segment.end)}`;
}

export function userName(user: string): string {
  return user === HIDDEN ? HIDDEN_NAME : user === IN_PARTS ? "MIG" : user;
}

/** "0" for a GPU, "0:1" for its second instance. */
export function gpuIndex({ uuid, index, parent }: GpuOfNode, gpus: readonly GpuOfNode[]): string {
  if (parent === null) return String(index);
  return `${index}:${gpus.filter((gpu) => gpu.parent === parent).findIndex((gpu) => gpu.uuid === uuid)}`;
}

/** The ribbon at a moment: "03:12 yesterday, 71 of 112 GPUs busy". */
export function ribbonAriaLabel(at: number, now: number, moment: RibbonPoint | null): string {
  if (moment === null) return momentText(at, now);
  const all = Object.values(moment.gpus).reduce((sum, count) => sum + count, 0);
  return `${momentText(at, now)}, ${Math.round(moment.gpus.busy ?? 0)} of ${plural(Math.round(all), "GPU")} busy`;
}

export const FOLDED_RIBBON_TITLE = "GPUs by state over time; click for the slider that shows a past moment";

/** A span of time beside the ribbon: "7 days", "5 h". */
export function lengthText(seconds: number): string {
  return seconds < 2 * DAY_SECONDS ? `${Math.max(1, Math.round(seconds / 3600))} h` : `${Math.round(seconds / DAY_SECONDS)} days`;
}

/** GPU-hours: "2,425", "0.4", "<0.1". */
export function formatHours(seconds: number): string {
  return compactNumber(seconds / 3600);
}

/** GPU-hours with unit, in minutes below one hour: "2,425 h", "24 m". */
export function formatHoursUnit(seconds: number): string {
  return seconds > 0 && seconds < 3600 ? duration(seconds) : `${formatHours(seconds)} h`;
}

/** Kilowatt-hours from which energy is in MWh. */
const MIN_MWH = 10_000;

/** Energy: "39.2 MWh", "1,014 kWh", "0.4 kWh", "<0.1 kWh". */
export function formatEnergy(joules: number): string {
  const kilowattHours = joules / 3.6e6;
  if (kilowattHours >= MIN_MWH) return `${(kilowattHours / 1000).toFixed(1)} MWh`;
  return joules === 0 ? UNKNOWN : `${compactNumber(kilowattHours)} kWh`;
}

function compactNumber(value: number): string {
  if (value > 0 && value < 0.05) return "<0.1";
  return value >= 10 || value === 0 ? Math.round(value).toLocaleString("en") : value.toFixed(1);
}

/** A share in whole percent: "42 %", "<1 %"; unknown if the whole is 0. */
export function formatShare(part: number, whole: number): string {
  if (whole <= 0) return UNKNOWN;
  const share = (100 * part) / whole;
  return share > 0 && share < 0.5 ? "<1 %" : `${Math.round(share)} %`;
}
