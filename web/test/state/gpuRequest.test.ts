import { expect, test } from "vitest";
import type { Candidate } from "../../src/feed/types";
import { candidatesByNode, freeSince, gpuNames, requestPath, runCommand, shellQuote, sshCommand, visibleDevices } from "../../src/state/gpuRequest";

function candidate(node: string, index: number, more: Partial<Candidate> = {}): Candidate {
  return {
    node_id: `id-of-${node}`,
    node,
    index,
    part: null,
    uuid: `GPU-${node}-${index}`,
    vendor: "nvidia",
    model: "NVIDIA H100",
    free_memory_bytes: null,
    gpu: { verdict: { since: 100 + index } },
    instance: null,
    ...more,
  } as Candidate;
}

test("a request is a path of the API", () => {
  expect(requestPath({ count: 2, gibibytes: 40, sameNode: true })).toBe("free?n=2&min_free=40GiB&same_node=true&why=false");
});

test("GPUs of one node stand together, the best node first", () => {
  const groups = candidatesByNode([candidate("b", 7), candidate("a", 0), candidate("b", 2)]);
  expect(groups.map((group) => group.map((one) => `${one.node}${one.index}`))).toEqual([["b2", "b7"], ["a0"]]);
});

test("a program is told the indices in the order of the bus", () => {
  expect(visibleDevices([candidate("a", 4), candidate("a", 5)])).toBe("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=4,5");
  expect(visibleDevices([candidate("a", 1, { vendor: "amd" })])).toBe("HIP_VISIBLE_DEVICES=1");
});

test("instances go by their UUID", () => {
  const instance = candidate("a", 0, { part: 1, uuid: "MIG-1" });
  expect(visibleDevices([instance])).toBe("CUDA_VISIBLE_DEVICES=MIG-1");
  expect(gpuNames([candidate("a", 0, { part: 0 }), instance])).toBe("GPU 0:0 and 0:1");
});

test("places are read as a person would say them", () => {
  expect(gpuNames([candidate("a", 3)])).toBe("GPU 3");
  expect(gpuNames([3, 4, 5].map((index) => candidate("a", index)))).toBe("GPU 3, 4 and 5");
});

test("they have been free since the last of them was", () => {
  expect(freeSince([candidate("a", 1), candidate("a", 4)])).toBe(104);
});

test("a name that a node chose is one word to a shell", () => {
  expect(sshCommand("gpu03")).toBe("ssh gpu03");
  expect(sshCommand("-oProxyCommand=evil")).toBe("ssh -- -oProxyCommand=evil");
  expect(sshCommand("a;rm -rf ~")).toBe("ssh 'a;rm -rf ~'");
  expect(shellQuote("it's")).toBe(`'it'"'"'s'`);
});

test("the line to run asks for what was wished", () => {
  expect(runCommand({ count: 2, gibibytes: 40, sameNode: true })).toBe("CUDA_VISIBLE_DEVICES=$(fleet-smi free --here -n 2 --min-free 40GiB) ./train.sh");
  expect(runCommand({ count: 1, gibibytes: 0, sameNode: false })).toBe("CUDA_VISIBLE_DEVICES=$(fleet-smi free --here -n 1) ./train.sh");
});
