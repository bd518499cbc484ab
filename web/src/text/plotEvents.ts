// Texts of the events of a GPU.

import type { PlotEvent } from "../state/plotEvents";
import { scriptOf } from "../state/jobGroups";
import { duration, plural } from "./format";
import { userName } from "./history";
import { HIDDEN_NAME } from "./people";

/** "alice started train.py", "chen started eval.py on MIG 2g.10gb"; "Throttled"; "Broken: fell off the bus". */
export function eventText({ kind, state, reason, holders, instance }: PlotEvent): string {
  if (kind === "throttled") return "Throttled";
  if (kind === "silent") return "Silent";
  if (kind === "job") return `${names(holders.map(({ user }) => userName(user) || HIDDEN_NAME))} started ${programs(holders)}${instance ? ` on MIG ${instance.model ?? "instance"}` : ""}`;
  const name = `${(state ?? "").charAt(0).toUpperCase()}${(state ?? "").slice(1)}`;
  return state === "free" || !reason ? name : `${name}: ${reason}`;
}

/** How long it lasted: "25 min"; nothing for a moment. */
export function eventLength({ kind, start, end }: PlotEvent, now: number): string {
  if (kind === "job") return "";
  return end === null ? `for ${duration(now - start)}` : duration(end - start);
}

function programs(holders: PlotEvent["holders"]): string {
  const found = holders.map(({ command, name }) => scriptOf(command ?? name ?? "a process"));
  const distinct = [...new Set(found)];
  const more = holders.length > 1 ? ` (${plural(holders.length, "process", "processes")})` : "";
  return names(distinct) + more;
}

function names(all: readonly string[]): string {
  const [first = "", ...others] = new Set(all);
  return others.length ? `${first} and ${others.length} more` : first;
}
