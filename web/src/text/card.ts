// Texts of a GPU's card: title, reason, facts, processes.

import type { State } from "../feed/state";
import type { JudgedGpu, Process } from "../feed/types";
import type { Gpu } from "../state/fleet";
import { UNKNOWN, duration, gibibytes, sentence } from "./format";
import { clockTime } from "./time";

export interface Fact {
  readonly name: string;
  readonly value: string;
  /** What follows the value in small print: a unit, a limit. */
  readonly rest?: string;
  readonly tooltip?: string;
}

const MIB = 1024 * 1024;

/** "Used by maria and 2 more", "Held by mei", "Free", "No owner". */
export function cardTitle({ info }: Gpu): string {
  return verdictTitle(info.verdict.state, info.verdict.users ?? []);
}

/** The verdict on a GPU as a title: who uses it, or its state. */
export function verdictTitle(state: State, users: readonly string[]): string {
  const verb = { busy: "Used", held: "Held", leased: "Leased" }[state as string];
  if (verb === undefined || users.length === 0) return TITLES[state];
  return `${verb} by ${users[0]}${users.length > 1 ? ` and ${users.length - 1} more` : ""}`;
}

const TITLES: Record<State, string> = {
  free: "Free",
  leased: "Leased",
  busy: "Used by an unknown user",
  held: "Held by an unknown user",
  ghost: "Ghost: memory in use by no known process",
  broken: "Broken",
  unknown: "Unknown",
};

/** The reason for the state from the stream alone, until the node's details are loaded. */
export function cardReason(gpu: Gpu, now: number): string {
  const reason = plainReason(gpu, now);
  return gpu.info.verdict.notes.includes("throttled") ? `${reason}, throttled` : reason;
}

function plainReason({ info, figures }: Gpu, now: number): string {
  const { state, reason, was, idle_since, since } = info.verdict;
  if (reason !== null) return sentence(reason);
  if (state === "held") {
    const memory = `${gibibytes(figures[1])} of ${gibibytes(info.memory_total_mebibytes)} GiB allocated`;
    return `Idle for ${duration(now - (idle_since ?? since))}, ${memory}`;
  }
  if (was !== null) return `Was ${was}`;
  return figures[0] === null ? "" : busyText(`${figures[0]} %`, now - since);
}

/** The hub's reason under a title that has the users already: "99 % busy for 2 d". */
export function verdictReason({ state, reason, since }: JudgedGpu["verdict"], now: number): string {
  const [who, rest] = reason.split(/, (.*)/s);
  if (who === undefined || rest === undefined || (state !== "busy" && state !== "held") || reason.startsWith("in use")) return sentence(reason);
  const load = /^\d+ %$/.test(rest);
  return sentence(load ? busyText(rest, now - since) : rest);
}

function busyText(load: string, seconds: number): string {
  return `${load} busy for ${duration(seconds)}`;
}

/** The facts: those of the stream at once, the others when the node's details are loaded. */
export function cardFacts({ info, figures }: Gpu, full: JudgedGpu | undefined): Fact[] {
  const [busy, used, degrees, watts] = figures;
  const memory = { name: "Memory", value: gibibytes(used), rest: `/ ${gibibytes(info.memory_total_mebibytes)} GiB` };
  const now: Fact[] = [
    memory,
    { name: "Utilisation", value: formatReading(busy, " %"), tooltip: "share of time with a kernel running" },
    { name: "Power", value: formatReading(watts, ""), rest: limit(full?.power_limit_watts, " W") },
    { name: "Temperature", value: formatReading(degrees, " °C") },
  ];
  if (!full) return now;
  const throttling = full.throttle_reasons;
  return [
    ...now,
    { name: "SM clock", value: formatReading(full.sm_clock_mhz, ""), rest: full.sm_clock_max_mhz === null ? "MHz" : limit(full.sm_clock_max_mhz, ""), tooltip: "streaming multiprocessor clock and its maximum, in MHz" },
    { name: "Memory clock", value: formatReading(full.memory_clock_mhz, ""), rest: "MHz" },
    { name: "PCIe", value: full.pcie_generation === null ? UNKNOWN : `gen ${full.pcie_generation} ×${full.pcie_width ?? "?"}`, tooltip: "PCI Express generation and lanes" },
    { name: "Throttling", value: throttling === null ? UNKNOWN : throttling.map(plain).join(", ") || "none", tooltip: "why the clock is reduced" },
  ];
}

/** The facts that are known: history does not have all of them. */
export function knownFacts(facts: readonly Fact[]): Fact[] {
  return facts.filter(({ value }) => value !== UNKNOWN);
}

/** All processes on a GPU and its instances; `null` if they could not be read. */
export function processesOf(full: JudgedGpu): Process[] | null {
  const all = [full, ...full.instances].map((part) => part.processes);
  if (all.every((processes) => processes === null)) return null;
  return all.flatMap((processes) => processes ?? []).sort((a, b) => (b.gpu_memory_bytes ?? 0) - (a.gpu_memory_bytes ?? 0));
}

/** How many processes on these GPUs are only counted: the list of a GPU has a limit. */
export function unlistedProcesses(gpus: readonly JudgedGpu[]): number {
  return gpus.flatMap((gpu) => [gpu, ...gpu.instances]).reduce((sum, part) => sum + part.more_processes, 0);
}

/** The command or name of a process, as far as the user may see it. */
export function processName({ command, name, hidden, pid, pid_is_made }: Process): string {
  return command ?? name ?? (hidden ? "hidden from the agent" : pid_is_made ? "unknown" : `process ${pid}`);
}

export function processMemory({ gpu_memory_bytes }: Process): string {
  return gpu_memory_bytes === null ? UNKNOWN : `${gibibytes(gpu_memory_bytes / MIB)} GiB`;
}

export function startText({ started_at }: Process, now: number): string {
  if (started_at === null) return UNKNOWN;
  return now - started_at < 86_400 ? clockTime(started_at) : duration(now - started_at);
}

export function formatReading(value: number | null, unit: string): string {
  return value === null ? UNKNOWN : `${Math.round(value)}${unit}`;
}

function limit(value: number | null | undefined, unit: string): string {
  return value == null ? unit.trim() : `/ ${Math.round(value)}${unit}`;
}

function plain(reason: string): string {
  return reason.replaceAll("_", " ");
}
