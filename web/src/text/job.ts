// Texts about a job and about the person who ran it.

import type { Job, Person, Sums } from "../feed/types";
import type { JobSort } from "../state/jobGroups";
import { busyShare } from "../state/usage";
import type { Fact } from "./card";
import { UNKNOWN, duration, plural } from "./format";
import { formatEnergy, formatHours, formatHoursUnit, formatShare } from "./history";
import { useText } from "./people";
import { dateTime } from "./time";

/** A smaller part of the time is not shown: it is noise. */
const MIN_SHARE = 0.005;
const GIB = 1024 ** 3;
export const JOB_SORTS: Record<JobSort, string> = { newest: "Newest", hours: "Most GPU time", idle: "Most idle", busy: "Least busy" };
const MEANING = {
  hours: "hours times GPUs; users who share a GPU get equal parts",
  busy: "share of the measured time with a kernel running",
  idle: "time with memory allocated and no work",
};

/** "python train.py --config large.yaml"; the process name if the command is not visible. */
export function jobName({ command, parts }: Pick<Job, "command" | "parts">): string {
  return command ?? parts[0]?.occupancy.holder.name ?? "unnamed process";
}

/** "gpu01", "gpu01 and 3 other nodes", for places such as "gpu01:0". */
export function nodesText(places: readonly string[]): string {
  const [first = "", ...others] = new Set(places.map((place) => place.slice(0, place.lastIndexOf(":"))));
  return others.length ? `${first} and ${plural(others.length, "other node")}` : first;
}

/** "92 % busy". */
export function usedText(sums: Sums): string {
  const share = busyShare(sums);
  return share === null ? UNKNOWN : `${Math.round(100 * share)} % busy`;
}

/** "2026-11-14 14:05, 3 h 12", "2026-11-14 14:05, running for 17 h". */
export function jobTimes(start: number, end: number | null, now: number): string {
  return `${dateTime(start)}, ${end === null ? "running for " : ""}${duration((end ?? now) - start)}`;
}

export function personFacts(sums: Sums, jobs: readonly Job[], person: Person | null): Fact[] {
  return [
    { name: "GPUs now", value: person ? String(person.gpus) : "none", ...(person && { rest: useText(person) }) },
    ...sumFacts(sums),
    { name: "Jobs", value: jobs.length.toLocaleString("en"), rest: `${jobs.filter(({ end }) => end === null).length} running` },
  ];
}

export function jobFacts(job: Job, now: number): Fact[] {
  const peaks = job.parts.map(({ occupancy }) => occupancy.peak_memory_bytes).filter((peak) => peak !== null);
  return [
    { name: "GPUs", value: String(job.gpus), rest: `on ${plural(new Set(job.parts.map(({ gpu }) => gpu.node_id)).size, "node")}` },
    { name: "Started", value: dateTime(job.start) },
    { name: job.end === null ? "Running for" : "Duration", value: duration((job.end ?? now) - job.start) },
    ...sumFacts(job.sums),
    { name: "Peak memory", value: peaks.length ? formatGpuMemory(Math.max(...peaks)) : UNKNOWN, rest: "per GPU" },
  ];
}

function sumFacts(sums: Sums): Fact[] {
  return [
    { name: "GPU-hours", value: formatHours(sums.gpu_seconds), tooltip: MEANING.hours },
    { name: "Busy", value: formatShare(sums.busy_seconds, sums.measured_seconds), rest: formatHoursUnit(sums.busy_seconds), tooltip: MEANING.busy },
    { name: "Idle", value: formatHoursUnit(sums.idle_seconds), rest: formatShare(sums.idle_seconds, sums.gpu_seconds), tooltip: MEANING.idle },
    { name: "Energy", value: formatEnergy(sums.energy_joules) },
  ];
}

export interface UsagePart {
  readonly kind: "busy" | "unused" | "idle";
  readonly seconds: number;
  readonly text: string;
}

/** The GPU-hours in parts that add up to the whole; time that was not measured counts as unused. */
export function usageParts(sums: Sums): UsagePart[] {
  const idle = Math.min(sums.idle_seconds, sums.gpu_seconds - sums.busy_seconds);
  const unused = sums.gpu_seconds - sums.busy_seconds - idle;
  const text = (seconds: number, name: string): string => `${formatHoursUnit(seconds)} ${name}, ${formatShare(seconds, sums.gpu_seconds)}`;
  const parts: UsagePart[] = [
    { kind: "busy", seconds: sums.busy_seconds, text: text(sums.busy_seconds, "busy") },
    { kind: "unused", seconds: unused, text: text(unused, "allocated, low activity") },
    { kind: "idle", seconds: idle, text: text(idle, "idle") },
  ];
  return parts.filter(({ seconds }) => seconds > MIN_SHARE * sums.gpu_seconds);
}

export function formatGpuMemory(bytes: number | null): string {
  return bytes === null ? UNKNOWN : `${Math.round(bytes / GIB)} GiB`;
}
