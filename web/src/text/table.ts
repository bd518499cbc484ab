// What the table says: its heads, what they mean, and the words of a cell.

import { type Key, type Sort, labelsOf } from "../state/columns";
import type { Gpu } from "../state/fleet";
import { MEANING, NOT_MEASURED, counted, duration, gibibytes, shortModel } from "./words";

export interface Head {
  readonly key: Key;
  readonly title: string;
  readonly meaning: string;
  readonly isNumber?: true;
  /** The narrowest and the widest it may be, in characters. */
  readonly characters: readonly [number, number];
}

export const HEADS: readonly Head[] = [
  { key: "state", title: "State", meaning: "free, held, broken …; what needs attention comes first", characters: [12, 12] },
  { key: "node", title: "Node", meaning: "the machine", characters: [6, 24] },
  { key: "gpu", title: "GPU", meaning: "its number on the machine", isNumber: true, characters: [7, 7] },
  { key: "model", title: "Model", meaning: "what the card is", characters: [8, 26] },
  { key: "who", title: "Who", meaning: "whose processes are on it, the one with the most memory first", characters: [8, 22] },
  { key: "load", title: "Load", meaning: "how much of the last second its cores worked", isNumber: true, characters: [16, 16] },
  { key: "memory", title: "Memory", meaning: "GiB in use, of how many", isNumber: true, characters: [20, 20] },
  { key: "temperature", title: "Temp.", meaning: "temperature in degrees Celsius", isNumber: true, characters: [8, 8] },
  { key: "power", title: "Power", meaning: "what it draws, in watts", isNumber: true, characters: [8, 8] },
  { key: "since", title: "Since", meaning: "how long it has been in this state", isNumber: true, characters: [9, 9] },
  { key: "why", title: "Why this state", meaning: "the reason, as the hub judges it", characters: [18, 46] },
  { key: "driver", title: "Driver", meaning: "version of the driver", characters: [8, 16] },
  { key: "labels", title: "Labels", meaning: "what the machine is labelled with", characters: [8, 40] },
  { key: "uuid", title: "UUID", meaning: "the GPU's own name, for CUDA_VISIBLE_DEVICES", characters: [8, 46] },
];

const BESIDE_TEXT = 4;

/** What the table shows, and in which order. */
export function tableOf(rows: number, { key, falling }: Sort): string {
  const head = HEADS.find((each) => each.key === key)?.title.toLowerCase() ?? key;
  const order = key === "state" && !falling ? "what needs attention first" : `by ${head}${falling ? ", falling" : ""}`;
  return `${counted(rows, "GPU")}, ${order}`;
}

/** The words of a cell; a cell with a bar or a mark has them beside it. */
export function cellText(key: Key, gpu: Gpu, now: number): string {
  return TEXTS[key](gpu, now);
}

const TEXTS: Record<Key, (gpu: Gpu, now: number) => string> = {
  state: ({ brief }) => brief.verdict.state,
  node: ({ node }) => node.brief.name,
  gpu: ({ brief }) => String(brief.index),
  model: ({ brief }) => modelOf(brief.name, brief.instances.length),
  who: ({ brief }) => brief.verdict.users?.join(", ") ?? NOT_MEASURED,
  load: ({ figures }) => figure(figures[0], "%"),
  memory: ({ brief, figures }) => memory(figures[1], brief.memory_total_mebibytes),
  temperature: ({ figures }) => figure(figures[2], "°C"),
  power: ({ figures }) => figure(figures[3], "W"),
  since: ({ brief }, now) => duration(now - brief.verdict.since),
  why: why,
  driver: ({ node }) => node.brief.driver_version ?? NOT_MEASURED,
  labels: ({ node }) => labelsOf(node.brief.labels),
  uuid: ({ brief }) => brief.uuid,
};

function why({ brief }: Gpu, now: number): string {
  const { state, reason, was, idle_since } = brief.verdict;
  if (was !== null) return `was ${was}`;
  if (reason !== null) return reason;
  if (state === "held" && idle_since !== null) return `no work for ${duration(now - idle_since)}`;
  return state === "busy" ? sharing(brief.verdict.users) : MEANING[state];
}

/** Who is busy there stands in its own column; how many share it is worth a word. */
function sharing(users: readonly string[] | null): string {
  return users !== null && users.length > 1 ? `shared by ${users.length}` : "";
}

function modelOf(name: string | null, instances: number): string {
  return instances === 0 ? shortModel(name) : `${shortModel(name)} in ${instances}`;
}

function memory(used: number | null, total: number | null): string {
  return used === null && total === null ? NOT_MEASURED : `${gibibytes(used)} / ${gibibytes(total)} G`;
}

function figure(value: number | null, unit: string): string {
  return value === null ? NOT_MEASURED : `${value} ${unit}`;
}

/** How wide each column is, in characters: as wide as what it holds, within its bounds. */
export function widths(rows: readonly Gpu[], now: number): number[] {
  return HEADS.map(({ key, characters: [least, most] }) => {
    let widest = least;
    for (const gpu of least < most ? rows : []) {
      widest = Math.max(widest, BESIDE_TEXT + cellText(key, gpu, now).length);
      if (widest >= most) return most;
    }
    return widest;
  });
}
