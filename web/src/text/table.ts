// Texts of the table: column titles, tooltips, cells.

import type { Process } from "../feed/types";
import type { Gpu } from "../state/fleet";
import { type ColumnKey, type SortKey, type TableSort, formatLabels } from "../state/tableSort";
import { STATE_MEANING, UNKNOWN, duration, gibibytes, plural, shortModel } from "./format";

export interface Column {
  readonly key: ColumnKey;
  readonly title: string;
  readonly tooltip: string;
  readonly isNumber?: true;
  /** Minimum and maximum width, in characters. */
  readonly characters: readonly [number, number];
}

export const COLUMNS: readonly Column[] = [
  { key: "node", title: "Node", tooltip: "node name", characters: [6, 24] },
  { key: "gpu", title: "GPU", tooltip: "index on the node", isNumber: true, characters: [7, 7] },
  { key: "state", title: "State", tooltip: "sorted by need for attention", characters: [12, 12] },
  { key: "model", title: "Model", tooltip: "GPU model", characters: [8, 26] },
  { key: "who", title: "User", tooltip: "users, the one with the most memory first", characters: [8, 22] },
  { key: "load", title: "Load", tooltip: "utilisation in percent", isNumber: true, characters: [16, 16] },
  { key: "trend", title: "Last hour", tooltip: "utilisation in the last hour", characters: [13, 13] },
  { key: "memory", title: "Memory", tooltip: "used / total, in GiB", isNumber: true, characters: [20, 20] },
  { key: "temperature", title: "Temp.", tooltip: "temperature in °C", isNumber: true, characters: [8, 8] },
  { key: "power", title: "Power", tooltip: "power draw in watts", isNumber: true, characters: [8, 8] },
  { key: "since", title: "Since", tooltip: "time in this state", isNumber: true, characters: [9, 9] },
  { key: "why", title: "Reason", tooltip: "why it is in this state", characters: [18, 46] },
  { key: "process", title: "Process", tooltip: "the process with the most memory; +1 is one more", characters: [28, 28] },
  { key: "driver", title: "Driver", tooltip: "driver version", characters: [8, 16] },
  { key: "labels", title: "Labels", tooltip: "labels of the node", characters: [8, 40] },
  { key: "uuid", title: "UUID", tooltip: "unique identifier, for CUDA_VISIBLE_DEVICES", characters: [8, 46] },
];

/** Always shown, and in view while the others are scrolled sideways. */
export const FIRST_COLUMN: ColumnKey = "node";

export function isSortable(key: ColumnKey): key is SortKey {
  return key !== "process" && key !== "trend";
}

/** Room beside the text of a cell for its bar or icon, in characters. */
const CELL_MARGIN = 4;

/** "12 GPUs, by load, descending". */
export function tableCaption(rows: number, { key, descending }: TableSort): string {
  const title = COLUMNS.find((each) => each.key === key)?.title.toLowerCase() ?? key;
  const order = key === "state" && !descending ? "attention first" : `by ${title}${descending ? ", descending" : ""}`;
  return `${plural(rows, "GPU")}, ${order}`;
}

/** The text of a cell; some cells also have a bar or an icon. */
export function tableCellText(key: SortKey, gpu: Gpu, now: number): string {
  return TEXTS[key](gpu, now);
}

const TEXTS: Record<SortKey, (gpu: Gpu, now: number) => string> = {
  state: ({ info }) => info.verdict.state,
  node: ({ node }) => node.info.name,
  gpu: ({ info }) => String(info.index),
  model: ({ info }) => modelText(info.name, info.instances.length),
  who: ({ info }) => info.verdict.users?.join(", ") ?? UNKNOWN,
  load: ({ figures }) => figureText(figures[0], "%"),
  memory: ({ info, figures }) => memoryText(figures[1], info.memory_total_mebibytes),
  temperature: ({ figures }) => figureText(figures[2], "°C"),
  power: ({ figures }) => figureText(figures[3], "W"),
  since: ({ info }, now) => duration(now - info.verdict.since),
  why: reasonText,
  driver: ({ node }) => node.info.driver_version ?? UNKNOWN,
  labels: ({ node }) => formatLabels(node.info.labels),
  uuid: ({ info }) => info.uuid,
};

function reasonText(gpu: Gpu, now: number): string {
  const reason = whyText(gpu, now);
  if (!gpu.info.verdict.notes.includes("throttled")) return reason;
  return reason === "" ? "throttled" : `${reason}, throttled`;
}

function whyText({ info }: Gpu, now: number): string {
  const { state, reason, was, idle_since } = info.verdict;
  if (was !== null) return `was ${was}`;
  if (reason !== null) return reason;
  if (state === "held" && idle_since !== null) return `idle for ${duration(now - idle_since)}`;
  return state === "busy" ? sharingText(info.verdict.users) : STATE_MEANING[state];
}

/** The users have their own column; that several share the GPU is worth a note. */
function sharingText(users: readonly string[] | null): string {
  return users !== null && users.length > 1 ? `shared by ${users.length}` : "";
}

function modelText(name: string | null, instances: number): string {
  return instances === 0 ? shortModel(name) : `${shortModel(name)}, ${plural(instances, "MIG instance")}`;
}

function memoryText(used: number | null, total: number | null): string {
  return used === null && total === null ? UNKNOWN : `${gibibytes(used)} / ${gibibytes(total)} GiB`;
}

function figureText(value: number | null, unit: string): string {
  return value === null ? UNKNOWN : `${value} ${unit}`;
}

/** The width of each column in characters: that of its longest cell, within its limits. */
export function columnWidths(columns: readonly Column[], rows: readonly Gpu[], now: number): number[] {
  return columns.map(({ key, characters: [min, max] }) => {
    let widest = min;
    if (!isSortable(key)) return widest;
    for (const gpu of min < max ? rows : []) {
      widest = Math.max(widest, CELL_MARGIN + tableCellText(key, gpu, now).length);
      if (widest >= max) return max;
    }
    return widest;
  });
}

/** The processes of a GPU in one cell: the largest by its command or name, and how many more there are. */
export function processText(processes: readonly Process[] | null | undefined): string {
  if (!processes) return "";
  const [first, ...more] = processes.toSorted((a, b) => (b.gpu_memory_bytes ?? 0) - (a.gpu_memory_bytes ?? 0));
  if (!first) return "";
  return `${first.command ?? first.name ?? UNKNOWN}${more.length > 0 ? ` +${more.length}` : ""}`;
}
