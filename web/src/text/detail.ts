// What the pages of a node and of a GPU say of them: facts in plain words, remarks, processes.

import type { CollectorRun, GpuWhole, NodeWhole, ProcessWhole } from "../feed/node";
import type { InstanceInFull } from "../feed/look";
import type { ProcessRow } from "../state/processes";
import { type Fact, measured, since } from "./card";
import { NOT_MEASURED, counted, duration, gibibytes, shortModel, watts } from "./words";

const MEBI = 1024 * 1024;

export const OUTCOME: Record<CollectorRun["outcome"], string> = {
  ok: "read",
  absent: "nothing of the kind here",
  failed: "could not be read",
};

export function bytes(value: number | null): string {
  return value === null ? NOT_MEASURED : `${gibibytes(value / MEBI)} G`;
}

/** "0–2, 7". */
export function ranges(numbers: readonly number[]): string {
  const runs: [number, number][] = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = runs.at(-1);
    if (last && number === last[1] + 1) last[1] = number;
    else runs.push([number, number]);
  }
  return runs.map(([first, end]) => (first === end ? String(first) : `${first}–${end}`)).join(", ");
}

export function nodeFacts(node: NodeWhole, heardAt: number | null, now: number): Fact[] {
  const { host } = node;
  return [
    { name: "Model", value: modelWords(node.gpus) },
    fact("Driver", host.driver_version, host.cuda_version && `CUDA ${host.cuda_version}`, "the version of the GPU's driver, and of CUDA that it can run"),
    fact("Kernel", host.kernel, null, "the version of the operating system's kernel"),
    fact("Up for", host.booted_at === null ? null : duration(now - host.booted_at), null, "since the machine was last started"),
    fact("CPU", host.cpu_percent === null ? null : measured(host.cpu_percent, " %"), cpuRest(node), "the machine's processors; load is how many programs want one"),
    fact("Host memory", host.memory_used_bytes === null ? null : gibibytes(host.memory_used_bytes / MEBI), host.memory_total_bytes === null ? null : `/ ${gibibytes(host.memory_total_bytes / MEBI)} GiB`, "the machine's own memory"),
    powerFact(node.gpus),
    fact("Reports by", node.agent_version === null ? node.via : `agent ${node.agent_version}`, pace(node)),
    fact("Last report", heardAt === null ? null : `${duration(now - heardAt)} ago`, node.silent ? "silent" : null),
    fact("Labels", Object.entries(node.labels).map(([label, value]) => `${label} ${value}`).join(", ") || null),
    fact("Address", host.addresses.join(", ") || null),
    collectorsFact(node.runs),
  ];
}

function fact(name: string, value: string | null, rest?: string | null, meaning?: string): Fact {
  return { name, value: value ?? NOT_MEASURED, ...(rest && { rest }), ...(meaning && { meaning }) };
}

function modelWords(gpus: readonly GpuWhole[]): string {
  const counts = new Map<string, number>();
  for (const { name } of gpus) counts.set(shortModel(name), (counts.get(shortModel(name)) ?? 0) + 1);
  return [...counts].map(([model, count]) => `${count} × ${model}`).join(", ") || "no GPU";
}

function cpuRest({ host }: NodeWhole): string | null {
  const cores = host.cpu_count === null ? null : `of ${counted(host.cpu_count, "core")}`;
  const load = host.load_1_minute === null ? null : `load ${host.load_1_minute.toFixed(1)}`;
  return [cores, load].filter(Boolean).join(", ") || null;
}

function powerFact(gpus: readonly GpuWhole[]): Fact {
  const known = gpus.filter((gpu) => gpu.power_watts !== null);
  const sum = known.reduce((total, gpu) => total + (gpu.power_watts ?? 0), 0);
  const rest = known.length < gpus.length ? `of ${known.length} of ${counted(gpus.length, "GPU")}` : `of ${counted(gpus.length, "GPU")}`;
  return fact("Power", known.length ? watts(sum) : null, known.length ? rest : null, "what its GPUs take together");
}

function pace({ via, interval_seconds: every, agent_version: agent }: NodeWhole): string | null {
  return [agent === null ? null : via, every === null ? null : `every ${duration(every)}`].filter(Boolean).join(", ") || null;
}

function collectorsFact(runs: readonly CollectorRun[]): Fact {
  const failed = runs.filter(({ outcome }) => outcome === "failed");
  const read = runs.filter(({ outcome }) => outcome === "ok");
  const value = failed.length ? `${failed.length} failed` : runs.length ? `${read.length} ok` : null;
  return fact("Collectors", value, (failed.length ? failed : read).map(({ name }) => name).join(", "), "the parts that read this machine; see below how each fared");
}

/** What is odd about a node, one sentence each; the twin of model/fleet.py's failures, limits and warnings. */
export function remarks(node: NodeWhole): string[] {
  const skew = node.clock_skew_seconds;
  const found = [
    node.trouble,
    skew === null ? null : `its clock is ${duration(Math.abs(skew))} ${skew > 0 ? "behind" : "ahead"}`,
    node.missing_reports ? `${counted(node.missing_reports, "report")} never came` : null,
    ...node.runs.filter(({ outcome }) => outcome === "failed").map((run) => `${run.name}: ${run.detail || OUTCOME.failed}`),
    ...node.runs.filter(({ outcome, detail }) => outcome === "ok" && detail).map((run) => `read through ${run.name}, which ${run.detail}`),
  ];
  return found.filter((each) => each !== null);
}

/** Where a process belongs: container, pod, job. */
export function belongsTo({ container, pod, slurm_job: job }: ProcessWhole): string {
  const parts = [job && `Slurm job ${job}`, pod && `pod ${pod}`, container && `container ${container}`];
  return parts.filter(Boolean).join(", ") || NOT_MEASURED;
}

/** "mei, omar" of those who have processes there. */
export function peopleOn(processes: readonly ProcessWhole[]): string[] {
  return [...new Set(processes.map(({ user }) => user).filter((user) => user !== null))];
}

/** What is to be said above the processes. */
export function processNote(rows: readonly ProcessRow[], unreadable: readonly number[]): string {
  const hidden = rows.filter(({ process }) => process.hidden).length;
  const said = [
    rows.length ? counted(rows.length, "process", "processes") : unreadable.length ? null : "none",
    hidden ? `of ${hidden} the agent may see no more than the driver tells` : null,
    unreadable.length ? `could not be read on GPU ${ranges(unreadable)}` : null,
  ];
  return said.filter((each) => each !== null).join("; ");
}

export const PROFILE_MEANING = "a part of a GPU (MIG): how much of its processor, and how much of its memory";

/** "1g.10gb, free: nobody is on it, since 17:39, 2 h 41". */
export function instanceWords({ profile, uuid, verdict }: InstanceInFull, now: number): string {
  return `${profile ?? uuid}, ${verdict.state}: ${verdict.reason}, ${since(verdict.since, now)}`;
}
