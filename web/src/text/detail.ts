// Texts of the pages of a node and a GPU: facts, warnings, processes.

import type { CollectorRun, JudgedGpu, JudgedInstance, NodeView, Process } from "../feed/types";
import type { ProcessRow } from "../state/processes";
import { type Fact, formatReading } from "./card";
import { UNKNOWN, duration, gibibytes, plural, shortModel, watts } from "./format";
import { sinceText } from "./time";

const MIB = 1024 * 1024;

export const OUTCOME: Record<CollectorRun["outcome"], string> = {
  ok: "ok",
  absent: "not present",
  failed: "failed",
};

export function formatBytes(value: number | null): string {
  return value === null ? UNKNOWN : `${gibibytes(value / MIB)} GiB`;
}

/** "0–2, 7". */
export function formatRanges(numbers: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else ranges.push([number, number]);
  }
  return ranges.map(([first, end]) => (first === end ? String(first) : `${first}–${end}`)).join(", ");
}

export function nodeFacts(node: NodeView, reportedAt: number | null, now: number): Fact[] {
  const { host } = node;
  return [
    { name: "Model", value: modelCounts(node.gpus) },
    fact("Driver", host.driver_version, host.cuda_version && `CUDA ${host.cuda_version}`, "GPU driver version, and the CUDA version it supports"),
    fact("Kernel", host.kernel, null, "operating system kernel"),
    fact("Uptime", host.booted_at === null ? null : duration(now - host.booted_at), null, "since the last boot"),
    fact("CPU", host.cpu_percent === null ? null : formatReading(host.cpu_percent, " %"), cpuRest(node), "CPU utilisation, and the load average over one minute"),
    fact("Host memory", host.memory_used_bytes === null ? null : gibibytes(host.memory_used_bytes / MIB), host.memory_total_bytes === null ? null : `/ ${gibibytes(host.memory_total_bytes / MIB)} GiB`),
    powerFact(node.gpus),
    fact("Reports via", node.agent_version === null ? node.via : `agent ${node.agent_version}`, reportRest(node)),
    fact("Last report", reportedAt === null ? null : `${duration(now - reportedAt)} ago`, node.silent ? "silent" : null),
    fact("Labels", Object.entries(node.labels).map(([label, value]) => `${label} ${value}`).join(", ") || null),
    fact("Address", host.addresses.join(", ") || null),
    collectorsFact(node.runs),
  ];
}

function fact(name: string, value: string | null, rest?: string | null, tooltip?: string): Fact {
  return { name, value: value ?? UNKNOWN, ...(rest && { rest }), ...(tooltip && { tooltip }) };
}

function modelCounts(gpus: readonly JudgedGpu[]): string {
  const counts = new Map<string, number>();
  for (const { name } of gpus) counts.set(shortModel(name), (counts.get(shortModel(name)) ?? 0) + 1);
  return [...counts].map(([model, count]) => `${count} × ${model}`).join(", ") || "no GPU";
}

function cpuRest({ host }: NodeView): string | null {
  const cores = host.cpu_count === null ? null : `of ${plural(host.cpu_count, "core")}`;
  const load = host.load_1_minute === null ? null : `load ${host.load_1_minute.toFixed(1)}`;
  return [cores, load].filter(Boolean).join(", ") || null;
}

function powerFact(gpus: readonly JudgedGpu[]): Fact {
  const known = gpus.filter((gpu) => gpu.power_watts !== null);
  const sum = known.reduce((total, gpu) => total + (gpu.power_watts ?? 0), 0);
  const rest = known.length < gpus.length ? `${known.length} of ${plural(gpus.length, "GPU")}` : plural(gpus.length, "GPU");
  return fact("Power", known.length ? watts(sum) : null, known.length ? rest : null, "total of its GPUs");
}

function reportRest({ via, interval_seconds: interval, agent_version: agent }: NodeView): string | null {
  return [agent === null ? null : via, interval === null ? null : `every ${duration(interval)}`].filter(Boolean).join(", ") || null;
}

function collectorsFact(runs: readonly CollectorRun[]): Fact {
  const failed = runs.filter(({ outcome }) => outcome === "failed");
  const ok = runs.filter(({ outcome }) => outcome === "ok");
  const value = failed.length ? `${failed.length} failed` : runs.length ? `${ok.length} ok` : null;
  return fact("Collectors", value, (failed.length ? failed : ok).map(({ name }) => name).join(", "), "what reads the hardware; see below for the last run");
}

/** What is wrong with a node, one sentence each; the same as model/fleet.py's failures, limits and warnings. */
export function nodeWarnings(node: NodeView): string[] {
  const skew = node.clock_skew_seconds;
  const found = [
    node.trouble,
    skew === null ? null : `clock is ${duration(Math.abs(skew))} ${skew > 0 ? "behind" : "ahead"}`,
    node.missing_reports ? `${plural(node.missing_reports, "report")} missing` : null,
    ...node.runs.filter(({ outcome }) => outcome === "failed").map((run) => `${run.name}: ${run.detail || OUTCOME.failed}`),
    ...node.runs.filter(({ outcome, detail }) => outcome === "ok" && detail).map((run) => `read through ${run.name}, which ${run.detail}`),
  ];
  return found.filter((each) => each !== null);
}

/** The job, pod or container of a process. */
export function processScope({ container, pod, slurm_job: job }: Process): string {
  const parts = [job && `Slurm job ${job}`, pod && `pod ${pod}`, container && `container ${container}`];
  return parts.filter(Boolean).join(", ") || UNKNOWN;
}

/** The users of these processes, each once. */
export function usersOf(processes: readonly Process[]): string[] {
  return [...new Set(processes.map(({ user }) => user).filter((user) => user !== null))];
}

/** The note above the processes: how many, how many hidden, where they could not be read. */
export function processNote(rows: readonly ProcessRow[], unreadable: readonly number[], unlisted = 0): string {
  const hidden = rows.filter(({ process }) => process.hidden).length;
  const notes = [
    rows.length ? String(rows.length) : unreadable.length ? null : "none",
    unlisted ? `and ${unlisted} more, which are not listed` : null,
    hidden ? `${hidden} hidden from the agent` : null,
    unreadable.length ? `not readable on GPU ${formatRanges(unreadable)}` : null,
  ];
  return notes.filter((each) => each !== null).join("; ");
}

export const PROFILE_MEANING = "MIG profile: compute slices and memory";

/** "1g.10gb, free: not in use, since 17:39, 2 h 41". */
export function instanceText({ profile, uuid, verdict }: JudgedInstance, now: number): string {
  return `${profile ?? uuid}, ${verdict.state}: ${verdict.reason}, ${sinceText(verdict.since, now)}`;
}
