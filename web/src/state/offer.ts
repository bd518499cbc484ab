// What the hub offers to take, by node, and the lines that lead there. The hub has chosen; this writes it down.

export interface Candidate {
  node_id: string;
  node: string;
  index: number;
  part: number | null;
  uuid: string;
  vendor: "nvidia" | "amd" | "intel";
  model: string | null;
  free_memory_bytes: number | null;
  gpu: { verdict: { since: number } };
  instance: { verdict: { since: number } } | null;
}

export interface Offer {
  wanted: number;
  offered: Candidate[];
  unmet: string | null;
}

export interface Wish {
  count: number;
  gibibytes: number;
  sameNode: boolean;
}

const VARIABLE = { nvidia: "CUDA_VISIBLE_DEVICES", amd: "HIP_VISIBLE_DEVICES", intel: "ZE_AFFINITY_MASK" };

/** The question that a wish is, after `/api/v1/`. */
export function question({ count, gibibytes, sameNode }: Wish): string {
  return `free?n=${count}&min_free=${gibibytes}GiB&same_node=${sameNode}&why=false`;
}

/** Those of one node together, the best node first. */
export function byNode(offered: readonly Candidate[]): Candidate[][] {
  const groups = new Map<string, Candidate[]>();
  for (const one of offered) groups.set(one.node_id, [...(groups.get(one.node_id) ?? []), one]);
  return [...groups.values()].map((theirs) => theirs.sort(inOrder));
}

export function sshLine(node: string): string {
  return `ssh ${node.startsWith("-") ? "-- " : ""}${quoted(node)}`;
}

/** What a program is told so that it takes these and no others; an instance has only a UUID. */
export function devicesLine(theirs: readonly Candidate[]): string {
  const variable = VARIABLE[theirs[0]?.vendor ?? "nvidia"];
  if (theirs.some((one) => one.part !== null)) return `${variable}=${quoted(theirs.map((one) => one.uuid).join(","))}`;
  const order = variable === VARIABLE.nvidia ? "CUDA_DEVICE_ORDER=PCI_BUS_ID " : "";
  return `${order}${variable}=${theirs.map((one) => one.index).join(",")}`;
}

/** The line for that machine which takes what is free when it is run. */
export function runLine({ count, gibibytes }: Wish): string {
  const memory = gibibytes > 0 ? ` --min-free ${gibibytes}GiB` : "";
  return `CUDA_VISIBLE_DEVICES=$(fleet-smi free --here -n ${count}${memory}) ./train.sh`;
}

/** "GPU 4 and 5", "GPU 1:0". */
export function places(theirs: readonly Candidate[]): string {
  const names = theirs.map((one) => (one.part === null ? `${one.index}` : `${one.index}:${one.part}`));
  const last = names.at(-1) ?? "";
  return `GPU ${names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${last}` : last}`;
}

/** Since when all of them have been free. */
export function freeSince(theirs: readonly Candidate[]): number {
  return Math.max(...theirs.map((one) => (one.instance ?? one.gpu).verdict.since));
}

function inOrder(a: Candidate, b: Candidate): number {
  return a.index - b.index || (a.part ?? 0) - (b.part ?? 0);
}

/** One word for a shell, whatever it holds: nodes choose their names. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}
