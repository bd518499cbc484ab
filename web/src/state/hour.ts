// The last hour in memory, told as history tells any other stretch.

import type { Figure } from "../feed/event";
import type { Run, Series, Strips, Told } from "../feed/history";
import type { Hour } from "../feed/node";
import { stretches } from "./series";

export function seriesOfHour({ from, grain_seconds, node, gpus }: Hour): Series {
  return {
    start: from,
    grain_seconds,
    node: { cpu_percent: told(node.cpu_percent), memory_percent: told(node.memory_percent) },
    gpus: Object.fromEntries(
      Object.entries(gpus).map(([uuid, gpu]) => [
        uuid,
        {
          busy_percent: told(gpu.busy_percent),
          memory_used_mebibytes: told(gpu.memory_used_mebibytes),
          power_watts: told(gpu.power_watts),
          temperature_celsius: told(gpu.temperature_celsius),
        },
      ]),
    ),
  };
}

/** It does not know whose they were. */
export function stripsOfHour({ from, grain_seconds: grain, node, gpus }: Hour, nodeId: string): Strips {
  const columns = node.cpu_percent.length;
  const rows = Object.entries(gpus).map(([uuid, { state }], index) => ({
    gpu: { uuid, node_id: nodeId, node: nodeId, index, model: null, memory_total_bytes: null, parent: null },
    runs: stretches(state, from, grain, 1).flatMap((each): Run[] =>
      each.state === null ? [] : [{ start: each.from, end: each.to, state: each.state, user: "", others: 0, busy_percent: null }],
    ),
  }));
  return { start: from, end: from + grain * columns, columns, rows };
}

function told(figures: Figure[]): Told {
  return { minimum: figures, mean: figures, maximum: figures };
}
