// What the wall view shows: tiles of nodes or racks, free GPUs by model, idle holders, problems.

import { type State, STATES } from "../feed/state";
import { shortModel } from "../text/format";
import { type Group, arrange, defaultGrouping, nodesOf } from "./arrange";
import type { Fleet, Gpu, Node } from "./fleet";
import { idleHoldings } from "./idleHoldings";
import { loadStep } from "./totals";

/** What fits on one screen and is readable from four metres. */
export const TILES_PER_PAGE = 64;
const MAX_NODE_TILES = 2 * TILES_PER_PAGE;

/** A part of a tile: GPUs of one state, and of one load step if busy. */
export interface TilePart {
  readonly state: State;
  readonly load: number;
  readonly count: number;
}

/** A node with a part per GPU; or, of a large fleet, a rack with a part per state. */
export interface Tile {
  readonly name: string;
  readonly free: number;
  readonly isSilent: boolean;
  readonly parts: readonly TilePart[];
}

/** The tiles in pages of about the same size: a last one with two tiles would waste its turn. */
export function tilePages(fleet: Fleet): Tile[][] {
  const groups = arrange(fleet, { sort: "name", grouping: defaultGrouping(fleet) });
  const byNode = fleet.nodes.size <= MAX_NODE_TILES || groups.length < 2;
  const tiles = byNode ? groups.flatMap((group) => nodesOf(fleet, group).map(nodeTile)) : groups.map((group) => rackTile(fleet, group));
  const size = Math.ceil(tiles.length / Math.max(1, Math.ceil(tiles.length / TILES_PER_PAGE)));
  const pages: Tile[][] = [];
  for (let at = 0; at < tiles.length; at += size) pages.push(tiles.slice(at, at + size));
  return pages;
}

function nodeTile({ info, gpus, totals }: Node): Tile {
  return { name: info.name, free: totals.free, isSilent: info.silent, parts: gpus.map((gpu) => partOf(gpu)) };
}

function rackTile(fleet: Fleet, group: Group): Tile {
  const nodes = nodesOf(fleet, group);
  const counts = new Map<string, TilePart>();
  for (const gpu of nodes.flatMap((node) => node.gpus)) {
    const part = partOf(gpu);
    const key = `${part.state} ${part.load}`;
    counts.set(key, { ...part, count: (counts.get(key)?.count ?? 0) + 1 });
  }
  const parts = [...counts.values()].sort((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state) || b.load - a.load);
  return { name: group.name ?? "other", free: nodes.reduce((sum, node) => sum + node.totals.free, 0), isSilent: nodes.every((node) => node.info.silent), parts };
}

function partOf({ info, figures }: Gpu): TilePart {
  const { state } = info.verdict;
  return { state, load: state === "busy" ? loadStep(figures[0]) : 0, count: 1 };
}

export interface ModelCount {
  readonly model: string;
  readonly free: number;
  readonly gpus: number;
}

/** Free GPUs by model, the most common models first. */
export function freeByModel(fleet: Fleet): ModelCount[] {
  const counts = new Map<string, ModelCount>();
  for (const { info } of fleet.nodes.values()) {
    for (const gpu of info.gpus) {
      const model = shortModel(gpu.name);
      const { free = 0, gpus = 0 } = counts.get(model) ?? {};
      counts.set(model, { model, free: free + Number(gpu.verdict.state === "free" && !info.silent), gpus: gpus + 1 });
    }
  }
  return [...counts.values()].sort((a, b) => b.gpus - a.gpus);
}

export interface IdleUser {
  readonly user: string;
  readonly gpus: number;
  readonly since: number;
}

/** Who holds idle GPUs, the longest idle first. */
export function idleUsers(fleet: Fleet): IdleUser[] {
  const users = new Map<string, IdleUser>();
  for (const { user, gpus, idleSince } of idleHoldings(fleet, () => true)) {
    const { gpus: before = 0, since = idleSince } = users.get(user) ?? {};
    users.set(user, { user, gpus: before + gpus.length, since });
  }
  return [...users.values()];
}

export interface WallProblem {
  readonly state: State;
  readonly what: string;
  readonly since: number;
}

/** Broken GPUs and silent nodes, the newest first. */
export function wallProblems(fleet: Fleet): WallProblem[] {
  const found: WallProblem[] = [];
  for (const { info, figures } of fleet.nodes.values()) {
    if (info.silent) found.push({ state: "unknown", what: `${info.name} silent`, since: figures.reportedAt ?? 0 });
    for (const { index, verdict } of info.gpus) {
      if (verdict.state === "broken") found.push({ state: "broken", what: `${info.name} GPU ${index} broken`, since: verdict.since });
    }
  }
  return found.sort((a, b) => b.since - a.since);
}
