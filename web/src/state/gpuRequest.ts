// A request for GPUs: the path that asks the hub, and the commands to use what it offers.

import type { Candidate } from "../feed/types";
import { memoryForRequest } from "./cardSize";
import type { Gpu } from "./fleet";

export interface GpuRequest {
  count: number;
  /** The nominal size of the card; 0 for any. */
  gigabytes: number;
  /** The full name of a model or MIG profile; empty for any. */
  model: string;
  sameNode: boolean;
}

const MIB = 2 ** 20;
const GIB = 2 ** 30;
const DEBOUNCE_MS = 150;
const MET_INTERVAL_MS = 10_000;
const UNMET_INTERVAL_MS = 2_000;
const VISIBLE_DEVICES = { nvidia: "CUDA_VISIBLE_DEVICES", amd: "HIP_VISIBLE_DEVICES", intel: "ZE_AFFINITY_MASK" };

/** The API path of a request, below /api/v1/. */
export function requestPath({ count, gigabytes, model, sameNode }: GpuRequest): string {
  const words = model && `&model=${encodeURIComponent(model)}`;
  return `free?n=${count}&min_free=${gigabytes}GiB${words}&same_node=${sameNode}&why=false`;
}

/** Whether a card is of the requested model and size; `memory` in MiB is what must be enough: all of it, or what is free. */
export function isRequested({ model, gigabytes }: GpuRequest, { info }: Gpu, memory: number | null): boolean {
  if (model && model !== info.name) return false;
  if (gigabytes === 0) return true;
  const total = info.memory_total_mebibytes;
  if (memory === null || total === null) return false;
  const requested = gigabytes * GIB;
  return memoryForRequest(memory * MIB, total * MIB, info.nominal_gigabytes, requested) >= requested;
}

/** Free memory of a GPU in MiB; `null` if it is not known. */
export function freeMebibytes({ info, figures }: Gpu): number | null {
  const [total, used] = [info.memory_total_mebibytes, figures[1]];
  return total === null || used === null ? null : total - used;
}

/**
 * Milliseconds until an offer of this age is requested again. In a large fleet the number of free GPUs changes all the
 * time, hence the minimum intervals; where nothing is offered, a GPU that became free must not stand beside it for long.
 */
export function reloadDelay(age: number, isMet: boolean): number {
  const interval = isMet ? MET_INTERVAL_MS : UNMET_INTERVAL_MS;
  return Math.max(DEBOUNCE_MS, interval - age);
}

/** The candidates grouped by node, the best node first. */
export function candidatesByNode(candidates: readonly Candidate[]): Candidate[][] {
  const groups = new Map<string, Candidate[]>();
  for (const each of candidates) groups.set(each.node_id, [...(groups.get(each.node_id) ?? []), each]);
  return [...groups.values()].map((group) => group.sort(byIndex));
}

/** The command to reach a host; ssh takes a port only in a URL, and two colons are an IPv6 address. */
export function sshCommand(host: string): string {
  const target = host.split(":").length === 2 ? `ssh://${host}` : host;
  return `ssh ${target.startsWith("-") ? "-- " : ""}${shellQuote(target)}`;
}

/** The environment variable that limits a program to these GPUs. MIG instances can only be given by UUID. */
export function visibleDevices(candidates: readonly Candidate[]): string {
  const variable = VISIBLE_DEVICES[candidates[0]?.vendor ?? "nvidia"];
  if (candidates.some((each) => each.part !== null)) return `${variable}=${shellQuote(candidates.map((each) => each.uuid).join(","))}`;
  const order = variable === VISIBLE_DEVICES.nvidia ? "CUDA_DEVICE_ORDER=PCI_BUS_ID " : "";
  return `${order}${variable}=${candidates.map((each) => each.index).join(",")}`;
}

/** The command to run on the node: it takes free GPUs at the time it runs, and gives them back. */
export function runCommand({ count, gigabytes, model }: GpuRequest): string {
  const memory = gigabytes > 0 ? ` --min-free ${gigabytes}GiB` : "";
  const words = model && ` --model ${shellQuote(model)}`;
  return `fleet-smi run -n ${count}${memory}${words} -- ./train.sh`;
}

/** "GPU 4 and 5", "GPU 1:0". */
export function gpuNames(candidates: readonly Candidate[]): string {
  const names = candidates.map((each) => (each.part === null ? `${each.index}` : `${each.index}:${each.part}`));
  const last = names.at(-1) ?? "";
  return `GPU ${names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${last}` : last}`;
}

/** Since when all of them have been free. */
export function freeSince(candidates: readonly Candidate[]): number {
  return Math.max(...candidates.map((each) => (each.instance ?? each.gpu).verdict.since));
}

function byIndex(a: Candidate, b: Candidate): number {
  return a.index - b.index || (a.part ?? 0) - (b.part ?? 0);
}

/** Quote a word for a shell: nodes choose their names, so anything may be in them. */
export function shellQuote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}
