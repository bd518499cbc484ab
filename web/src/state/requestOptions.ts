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
  readonly models: readonly ModelOption[];
}

export function requestOptions(fleet: Fleet): RequestOptions {
  const sizes = new Set<number>();
  const labels = new Map<string, string>();
  for (const { info } of fleet.nodes.values()) {
    for (const { name, nominal_gigabytes: size, instances } of info.gpus) {
      if (instances.length === 0) {
        if (size !== null) sizes.add(size);
        if (name !== null) labels.set(name, shortModel(name));
      }
      for (const { profile } of instances) if (name !== null && profile !== null) labels.set(`${name} ${profile}`, `${shortModel(name)}, MIG ${profile}`);
    }
  }
  const models = [...labels].map(([name, label]) => ({ name, label }));
  models.sort((a, b) => (naturalKey(a.label) < naturalKey(b.label) ? -1 : 1));
  return { sizes: [...sizes].sort((a, b) => a - b), models };
}
