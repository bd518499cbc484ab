// What the card of a GPU says: its sentence, its numbers, its processes.

import type { GpuInFull, ProcessInFull } from "../feed/look";
import type { Gpu } from "../state/fleet";
import { whoHas } from "./grid";
import { NOT_MEASURED, duration, gibibytes } from "./words";

export interface Fact {
  readonly name: string;
  readonly value: string;
  readonly rest?: string;
  readonly meaning?: string;
}

const MEBI = 1024 * 1024;
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

/** "held by mei", "busy: priya and 2 more", "free". */
export function title({ brief }: Gpu): string {
  const { state, users } = brief.verdict;
  if (!users?.length) return state === "ghost" ? "ghost, no owner" : state;
  const more = users.length > 1 ? ` and ${users.length - 1} more` : "";
  return `${state} by ${whoHas(brief.verdict)}${more}`;
}

/** Why, where the stream alone must do. */
export function sentence({ brief, figures }: Gpu, now: number): string {
  const { state, reason, was, idle_since, since } = brief.verdict;
  if (reason !== null) return reason;
  if (state === "held") {
    const memory = `${gibibytes(figures[1])} of ${gibibytes(brief.memory_total_mebibytes)} GiB`;
    return `keeps ${memory} and has done nothing for ${duration(now - (idle_since ?? since))}`;
  }
  if (was !== null) return `was ${was}`;
  return figures[0] === null ? "" : `${figures[0]} % busy`;
}

/** "since 17:39, 2 h 41". */
export function since(moment: number, now: number): string {
  const age = now - moment;
  return age < 86_400 ? `since ${CLOCK.format(moment * 1000)}, ${duration(age)}` : `for ${duration(age)}`;
}

/** The numbers: those of the stream at once, the others when the node has been looked at. */
export function facts({ brief, figures }: Gpu, full: GpuInFull | undefined): Fact[] {
  const [busy, used, degrees, watts] = figures;
  const memory = { name: "Memory", value: gibibytes(used), rest: `/ ${gibibytes(brief.memory_total_mebibytes)} GiB` };
  const now: Fact[] = [
    memory,
    { name: "Utilisation", value: measured(busy, " %"), meaning: "share of the time in which a kernel ran" },
    { name: "Power", value: measured(watts, ""), rest: limit(full?.power_limit_watts, " W") },
    { name: "Temperature", value: measured(degrees, " °C") },
  ];
  if (!full) return now;
  const throttling = full.throttle_reasons;
  return [
    ...now,
    { name: "SM clock", value: measured(full.sm_clock_mhz, ""), rest: full.sm_clock_max_mhz === null ? "MHz" : limit(full.sm_clock_max_mhz, ""), meaning: "clock of the streaming multiprocessors in MHz, of its greatest" },
    { name: "Memory clock", value: measured(full.memory_clock_mhz, ""), rest: "MHz" },
    { name: "PCIe", value: full.pcie_generation === null ? NOT_MEASURED : `gen ${full.pcie_generation} ×${full.pcie_width ?? "?"}`, meaning: "the link to the machine: generation and lanes" },
    { name: "Throttling", value: throttling === null ? NOT_MEASURED : throttling.map(plain).join(", ") || "none", meaning: "why it runs slower than it could" },
  ];
}

/** Those that are known: of another moment much is not kept. */
export function told(facts: readonly Fact[]): Fact[] {
  return facts.filter(({ value }) => value !== NOT_MEASURED);
}

/** All processes on a GPU, those of its instances with it; `null` when they could not be read. */
export function processesOf(full: GpuInFull): ProcessInFull[] | null {
  const all = [full, ...full.instances].map((part) => part.processes);
  if (all.every((processes) => processes === null)) return null;
  return all.flatMap((processes) => processes ?? []).sort((a, b) => (b.gpu_memory_bytes ?? 0) - (a.gpu_memory_bytes ?? 0));
}

/** What a process is called: its command as far as the reader may see it. */
export function processName({ command, name, hidden, pid, pid_is_made }: ProcessInFull): string {
  return command ?? name ?? (hidden ? "hidden from the agent" : pid_is_made ? "not told" : `process ${pid}`);
}

export function processMemory({ gpu_memory_bytes }: ProcessInFull): string {
  return gpu_memory_bytes === null ? NOT_MEASURED : `${gibibytes(gpu_memory_bytes / MEBI)} G`;
}

export function startedAt({ started_at }: ProcessInFull, now: number): string {
  if (started_at === null) return NOT_MEASURED;
  return now - started_at < 86_400 ? CLOCK.format(started_at * 1000) : duration(now - started_at);
}

export function measured(value: number | null, unit: string): string {
  return value === null ? NOT_MEASURED : `${Math.round(value)}${unit}`;
}

function limit(value: number | null | undefined, unit: string): string {
  return value == null ? unit.trim() : `/ ${Math.round(value)}${unit}`;
}

function plain(reason: string): string {
  return reason.replaceAll("_", " ");
}
