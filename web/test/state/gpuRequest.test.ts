import { expect, test } from "vitest";
import type { Candidate } from "../../src/feed/types";
import { candidatesByNode, freeMebibytes, freeSince, gpuNames, isRequested, reloadDelay, requestPath, runCommand, shellQuote, sshCommand, visibleDevices } from "../../src/state/gpuRequest";
import { gpuOf } from "../gpus";

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

test("a request becomes an API path", () => {
  expect(requestPath({ count: 2, gigabytes: 40, model: "", sameNode: true })).toBe("free?n=2&min_free=40GiB&same_node=true&why=false");
  expect(requestPath({ count: 1, gigabytes: 0, model: "NVIDIA L4", sameNode: false })).toBe("free?n=1&min_free=0GiB&model=NVIDIA%20L4&same_node=false&why=false");
});

test("a nominal size means the card that is sold with it", () => {
  const request = { count: 1, gigabytes: 80, model: "", sameNode: true };
  const h100 = gpuOf({ total_mebibytes: 81_559, used_mebibytes: 600, nominal_gigabytes: 80 });
  expect(isRequested(request, h100, freeMebibytes(h100))).toBe(true);
  expect(isRequested(request, h100, 60_000)).toBe(false);
  expect(isRequested({ ...request, model: "NVIDIA H200" }, h100, 80_000)).toBe(false);
  expect(isRequested(request, gpuOf({ used_mebibytes: null }), null)).toBe(false);
});

test("a GPU that became free is offered within two seconds, a standing offer changes every ten", () => {
  expect(reloadDelay(Infinity, true)).toBe(150);
  expect(reloadDelay(500, false)).toBe(1500);
  expect(reloadDelay(500, true)).toBe(9500);
  expect(reloadDelay(60_000, true)).toBe(150);
});

test("candidates are grouped by node, the best node first", () => {
  const groups = candidatesByNode([candidate("b", 7), candidate("a", 0), candidate("b", 2)]);
  expect(groups.map((group) => group.map((one) => `${one.node}${one.index}`))).toEqual([["b2", "b7"], ["a0"]]);
});

test("visible devices are indices in PCI bus order", () => {
  expect(visibleDevices([candidate("a", 4), candidate("a", 5)])).toBe("CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=4,5");
  expect(visibleDevices([candidate("a", 1, { vendor: "amd" })])).toBe("HIP_VISIBLE_DEVICES=1");
});

test("MIG instances are given by UUID", () => {
  const instance = candidate("a", 0, { part: 1, uuid: "MIG-1" });
  expect(visibleDevices([instance])).toBe("CUDA_VISIBLE_DEVICES=MIG-1");
  expect(gpuNames([candidate("a", 0, { part: 0 }), instance])).toBe("GPU 0:0 and 0:1");
});

test('GPU names are joined with commas and "and"', () => {
  expect(gpuNames([candidate("a", 3)])).toBe("GPU 3");
  expect(gpuNames([3, 4, 5].map((index) => candidate("a", index)))).toBe("GPU 3, 4 and 5");
});

test("they are free since the last of them became free", () => {
  expect(freeSince([candidate("a", 1), candidate("a", 4)])).toBe(104);
});

test("node names are quoted for the shell", () => {
  expect(sshCommand("gpu03")).toBe("ssh gpu03");
  expect(sshCommand("-oProxyCommand=evil")).toBe("ssh -- -oProxyCommand=evil");
  expect(sshCommand("a;rm -rf ~")).toBe("ssh 'a;rm -rf ~'");
  expect(sshCommand("gpu03:2222")).toBe("ssh ssh://gpu03:2222");
  expect(sshCommand("fd00::1")).toBe("ssh fd00::1");
  expect(shellQuote("it's")).toBe(`'it'"'"'s'`);
});

test("the run command contains the request", () => {
  expect(runCommand({ count: 2, gigabytes: 40, model: "", sameNode: true })).toBe("fleet-smi run -n 2 --min-free 40GiB -- ./train.sh");
  expect(runCommand({ count: 1, gigabytes: 0, model: "NVIDIA L4", sameNode: false })).toBe(
    "fleet-smi run -n 1 --model 'NVIDIA L4' -- ./train.sh",
  );
});
