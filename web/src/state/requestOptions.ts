// What can be asked for in this fleet: the sizes of its cards, its models and MIG profiles.

import { shortModel } from "../text/format";
import { naturalKey } from "./arrange";
import type { Fleet } from "./fleet";

export interface ModelOption {
  /** The full name, which the hub takes for this model alone. */
  readonly name: string;
  readonly label: string;
}

export interface RequestOptions {
  /** Nominal sizes in GB, the smallest first. */
  readonly sizes: readonly number[];
  /** The memory of a card of each size, in MiB; of the smallest where they differ. */
  readonly usable: ReadonlyMap<number, number>;
  readonly models: readonly ModelOption[];
}

export function requestOptions(fleet: Fleet): RequestOptions {
  const usable = new Map<number, number>();
  const labels = new Map<string, string>();
  for (const { info } of fleet.nodes.values()) {
    for (const { name, nominal_gigabytes: size, memory_total_mebibytes: memory, instances } of info.gpus) {
      if (instances.length === 0) {
        if (size !== null && memory !== null) usable.set(size, Math.min(memory, usable.get(size) ?? memory));
        if (name !== null) labels.set(name, shortModel(name));
      }
      for (const { profile } of instances) if (name !== null && profile !== null) labels.set(`${name} ${profile}`, `${shortModel(name)}, MIG ${profile}`);
    }
  }
  const models = [...labels].map(([name, label]) => ({ name, label }));
  models.sort((a, b) => (naturalKey(a.label) < naturalKey(b.label) ? -1 : 1));
  return { sizes: [...usable.keys()].sort((a, b) => a - b), usable, models };
}
