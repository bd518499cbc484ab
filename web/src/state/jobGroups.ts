// The jobs of a person in groups: the same script or command on the same day is one line.

import type { Job, Sums } from "../feed/types";
import { ZERO_SUMS } from "./usage";

export interface JobGroup {
  readonly key: string;
  /** "train.py", "analysis.ipynb", or the command. */
  readonly name: string;
  /** The day that the jobs began on, as given. */
  readonly day: string;
  readonly jobs: readonly Job[];
  readonly sums: Sums;
  readonly start: number;
  readonly isRunning: boolean;
}

export type JobSort = "newest" | "hours" | "idle" | "busy";

const SCRIPT = /^[\w.+-]+\.(py|ipynb|jl|r|sh|lua|pl|rb|js)$/i;

/** The script, module or notebook of a command; the command itself if it has none. */
export function scriptOf(command: string): string {
  const [program = "", ...args] = command.split(/\s+/);
  for (const [at, arg] of args.entries()) {
    const module = arg === "-m" ? args[at + 1] : undefined;
    // The launcher of a notebook or of many workers is not what was run.
    if (module !== undefined && !/^(torch\.distributed|accelerate|ipykernel)/.test(module)) return module;
    const base = arg.split("/").at(-1) ?? "";
    if (!arg.startsWith("-") && SCRIPT.test(base)) return base;
  }
  if (/ipykernel|jupyter/.test(command)) return "notebook";
  const base = program.split("/").at(-1) ?? program;
  return args[0] && !args[0].startsWith("-") ? `${base} ${args[0]}` : base;
}

/** Group jobs by script and day; the groups are in the given order. */
export function groupJobs(jobs: readonly Job[], nameOf: (job: Job) => string, dayOf: (seconds: number) => string, sort: JobSort): JobGroup[] {
  const groups = new Map<string, Job[]>();
  for (const job of jobs) {
    const key = `${scriptOf(nameOf(job))}\n${dayOf(job.start)}`;
    groups.set(key, [...(groups.get(key) ?? []), job]);
  }
  const made = [...groups].map(([key, members]): JobGroup => {
    const [name = "", day = ""] = key.split("\n");
    const newest = [...members].sort((a, b) => Number(b.end === null) - Number(a.end === null) || b.start - a.start);
    return { key, name, day, jobs: newest, sums: addSums(members), start: Math.max(...members.map(({ start }) => start)), isRunning: members.some(({ end }) => end === null) };
  });
  return made.sort((a, b) => compare(a, b, sort));
}

function compare(a: JobGroup, b: JobGroup, sort: JobSort): number {
  if (sort === "hours") return b.sums.gpu_seconds - a.sums.gpu_seconds;
  if (sort === "idle") return b.sums.idle_seconds - a.sums.idle_seconds;
  if (sort === "busy") return share(a.sums) - share(b.sums);
  return Number(b.isRunning) - Number(a.isRunning) || b.start - a.start;
}

/** Jobs that were not measured come last. */
function share({ busy_seconds: busy, measured_seconds: measured }: Sums): number {
  return measured > 0 ? busy / measured : Infinity;
}

function addSums(jobs: readonly Job[]): Sums {
  return jobs.reduce<Sums>(
    (sum, { sums }) => ({
      gpu_seconds: sum.gpu_seconds + sums.gpu_seconds,
      measured_seconds: sum.measured_seconds + sums.measured_seconds,
      busy_seconds: sum.busy_seconds + sums.busy_seconds,
      idle_seconds: sum.idle_seconds + sums.idle_seconds,
      energy_joules: sum.energy_joules + sums.energy_joules,
    }),
    ZERO_SUMS,
  );
}
