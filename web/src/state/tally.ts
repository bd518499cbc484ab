// An index for suggestions: one pass over the GPUs that a filter matches counts every state, model, user, node and label in them.

import { type MatchCount, type Term, countMatches, devicesOf, matchesDevice, matchesPattern } from "./filterMatch";
import type { Gpu } from "./fleet";

type CountedKey = "state" | "model" | "user" | "node" | "label";
type Counts = Map<string, { gpus: number; instances: number }>;

const NONE: MatchCount = { gpus: 0, instances: 0 };

export class Tally {
  readonly total = { gpus: 0, instances: 0 };
  private readonly counts: Record<CountedKey, Counts> = { state: new Map(), model: new Map(), user: new Map(), node: new Map(), label: new Map() };
  private readonly within: Gpu[] = [];
  private readonly known = new Map<Term, MatchCount>();
  private readonly lowerCase = new Map<CountedKey, Counts>();

  /** Count the GPUs and MIG instances that match all terms. */
  constructor(gpus: readonly Gpu[], terms: readonly Term[]) {
    for (const gpu of gpus) {
      if (gpu.instances.length === 0) {
        if (terms.length === 0 || matchesDevice(terms, gpu)) this.add(gpu, "gpus");
      } else for (const device of devicesOf(gpu)) if (matchesDevice(terms, device)) this.add(device, device.info.uuid === gpu.info.uuid ? "gpus" : "instances");
    }
  }

  /** How many of them match one more term. */
  count(term: Term): MatchCount {
    let count = this.known.get(term);
    if (!count) this.known.set(term, (count = this.find(term)));
    return count;
  }

  /** The names that occur, the most common first. */
  names(key: CountedKey): string[] {
    const sorted = [...this.counts[key]].sort(([a, x], [b, y]) => y.gpus + y.instances - x.gpus - x.instances || (a < b ? -1 : 1));
    return sorted.map(([name]) => name);
  }

  private add(device: Gpu, kind: keyof MatchCount): void {
    const { state, model, user, node, label } = this.counts;
    const { info, node: its } = device;
    this.within.push(device);
    this.total[kind] += 1;
    bump(state, info.verdict.state, kind);
    if (info.name !== null) bump(model, info.name, kind);
    for (const name of info.verdict.users ?? []) bump(user, name, kind);
    bump(node, its.info.name, kind);
    for (const name in its.info.labels) bump(label, `${name}=${its.info.labels[name]}`, kind);
  }

  private find(term: Term): MatchCount {
    if (term.negated) {
      const { gpus, instances } = this.find({ ...term, negated: false });
      return { gpus: this.total.gpus - gpus, instances: this.total.instances - instances };
    }
    const counts = this.counts[term.key as CountedKey] as Counts | undefined;
    if (term.bound !== null || !counts) return countMatches([term], this.within);
    const names = this.lowerCaseNames(term.key as CountedKey, counts);
    const [value = ""] = term.values;
    // A name is looked up; only a pattern is compared with thousands of them.
    if (term.values.length === 1 && !value.includes("*")) return names.get(value) ?? NONE;
    let [gpus, instances] = [0, 0];
    for (const [name, count] of names) {
      if (!term.values.some((each) => matchesPattern(name, each))) continue;
      gpus += count.gpus;
      instances += count.instances;
    }
    return { gpus, instances };
  }

  private lowerCaseNames(key: CountedKey, counts: Counts): Counts {
    let names = this.lowerCase.get(key);
    if (names) return names;
    this.lowerCase.set(key, (names = new Map()));
    for (const [name, { gpus, instances }] of counts) {
      const same = names.get(name.toLowerCase());
      names.set(name.toLowerCase(), { gpus: gpus + (same?.gpus ?? 0), instances: instances + (same?.instances ?? 0) });
    }
    return names;
  }
}

function bump(counts: Counts, name: string, kind: keyof MatchCount): void {
  const count = counts.get(name);
  if (count) count[kind] += 1;
  else counts.set(name, { gpus: 0, instances: 0, [kind]: 1 });
}
