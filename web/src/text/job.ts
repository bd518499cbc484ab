// What is said of a job and of the person whose it is.

import type { Job, Sums } from "../feed/history";
import type { Person } from "../state/people.svelte";
import { busyShare } from "../state/usage";
import type { Fact } from "./card";
import { energy, hours, inHours, percent, startWords } from "./history";
import { use } from "./people";
import { NOT_MEASURED, counted, duration } from "./words";

const MEBI = 1024 * 1024;
const MEANING = {
  hours: "hours times GPUs; of one that several people share, each has an equal part",
  used: "share of the time in which the GPU worked, as far as that was measured",
  idle: "time in which the GPU's memory was kept and nothing was done",
};

/** "python train.py --config large.yaml"; what the hub does not say is said so. */
export function jobName({ command, parts }: Pick<Job, "command" | "parts">): string {
  return command ?? parts[0]?.occupancy.holder.name ?? "a process that is not named";
}

/** "gpu01", "gpu01 and 3 other nodes", for places such as "gpu01:0". */
export function placesWords(places: readonly string[]): string {
  const [first = "", ...others] = new Set(places.map((place) => place.slice(0, place.lastIndexOf(":"))));
  return others.length ? `${first} and ${counted(others.length, "other node")}` : first;
}

/** "92 % used". */
export function usedWords(sums: Sums): string {
  const share = busyShare(sums);
  return share === null ? NOT_MEASURED : `${Math.round(100 * share)} % used`;
}

/** "Sat 14 14:05, for 3 h 12", "Sat 14 14:05, still runs, 17 h". */
export function whenWords(start: number, end: number | null, now: number): string {
  return `${startWords(start, now)}, ${end === null ? "still runs," : "for"} ${duration((end ?? now) - start)}`;
}

export function personFacts(sums: Sums, jobs: readonly Job[], person: Person | null): Fact[] {
  return [
    { name: "Has now", value: person ? counted(person.gpus, "GPU") : "nothing", ...(person && { rest: use(person) }) },
    ...sumFacts(sums),
    { name: "Jobs", value: jobs.length.toLocaleString("en"), rest: counted(jobs.filter(({ end }) => end === null).length, "still runs", "still run") },
  ];
}

export function jobFacts(job: Job, now: number): Fact[] {
  const peaks = job.parts.map(({ occupancy }) => occupancy.peak_memory_bytes).filter((peak) => peak !== null);
  return [
    { name: "GPUs", value: String(job.gpus), rest: `on ${counted(new Set(job.parts.map(({ gpu }) => gpu.node_id)).size, "node")}` },
    { name: "Began", value: startWords(job.start, now) },
    { name: job.end === null ? "Runs for" : "Lasted", value: duration((job.end ?? now) - job.start), rest: job.end === null ? "so far" : "" },
    ...sumFacts(job.sums),
    { name: "Most memory", value: peaks.length ? memory(Math.max(...peaks)) : NOT_MEASURED, rest: "of one GPU" },
  ];
}

function sumFacts(sums: Sums): Fact[] {
  return [
    { name: "GPU-hours", value: hours(sums.gpu_seconds), meaning: MEANING.hours },
    { name: "Really used", value: percent(sums.busy_seconds, sums.measured_seconds), rest: `${inHours(sums.busy_seconds)} of work`, meaning: MEANING.used },
    { name: "Held idle", value: inHours(sums.idle_seconds), rest: percent(sums.idle_seconds, sums.gpu_seconds), meaning: MEANING.idle },
    { name: "Energy", value: energy(sums.energy_joules) },
  ];
}

export interface UsedPart {
  readonly kind: "worked" | "slack" | "idle";
  readonly seconds: number;
  readonly words: string;
}

/** The GPU-hours in parts, which come to the whole; what was not measured counts as no work. */
export function usedParts(sums: Sums): UsedPart[] {
  const idle = Math.min(sums.idle_seconds, sums.gpu_seconds - sums.busy_seconds);
  const slack = sums.gpu_seconds - sums.busy_seconds - idle;
  const said = (seconds: number, what: string): string => `${inHours(seconds)} ${what}, ${percent(seconds, sums.gpu_seconds)}`;
  const parts: UsedPart[] = [
    { kind: "worked", seconds: sums.busy_seconds, words: said(sums.busy_seconds, "at work") },
    { kind: "slack", seconds: slack, words: said(slack, "held between the work") },
    { kind: "idle", seconds: idle, words: said(idle, "held idle") },
  ];
  return parts.filter(({ seconds }) => seconds > 0);
}

export function memory(bytes: number | null): string {
  return bytes === null ? NOT_MEASURED : `${Math.round(bytes / MEBI / 1024)} GiB`;
}
