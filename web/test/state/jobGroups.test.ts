import { expect, it } from "vitest";
import type { Job } from "../../src/feed/types";
import { groupJobs, scriptOf } from "../../src/state/jobGroups";
import { ZERO_SUMS } from "../../src/state/usage";

function job(command: string, start: number, end: number | null, hours = 1): Job {
  return { id: `${command}${start}`, user: "mei", command, start, end, gpus: 1, sums: { ...ZERO_SUMS, gpu_seconds: hours, measured_seconds: hours, busy_seconds: hours / 2 }, certain: true, places: ["a:0"], advice: [], parts: [] };
}

it("a job is told apart by its script, module or notebook", () => {
  const commands = ["python -u /home/mei/train.py --lr 1", "python -m torch.distributed.run --nproc 8 train.py", "python -m mylab.fit", "python -m ipykernel_launcher -f /run/k.json", "julia --project=. fit.jl", "vllm serve Qwen", "/usr/bin/python3", "gmx mdrun -s x"];
  expect(commands.map(scriptOf)).toEqual(["train.py", "train.py", "mylab.fit", "notebook", "fit.jl", "vllm serve", "python3", "gmx mdrun"]);
});

it("jobs of one script on one day are one group", () => {
  const jobs = [job("python a.py", 10, 20), job("python a.py --x", 30, null, 4), job("python b.py", 90, 99, 9), job("python a.py", 130, 140)];
  const day = (seconds: number): string => String(Math.floor(seconds / 100));
  const name = ({ command }: Job): string => command ?? "";
  const groups = groupJobs(jobs, name, day, "newest");
  expect(groups.map(({ name: script, day: on, jobs: all }) => [script, on, all.length])).toEqual([["a.py", "0", 2], ["a.py", "1", 1], ["b.py", "0", 1]]);
  expect(groups[0]).toMatchObject({ isRunning: true, start: 30, sums: { gpu_seconds: 5 } });
  expect(groupJobs(jobs, name, day, "hours")[0]?.name).toBe("b.py");
});
