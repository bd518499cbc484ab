import { expect, it } from "vitest";
import { gpuFacts } from "../../src/text/gpu";
import { gpu } from "../details";

it("links that are up, and traffic in a unit that fits; a card without NVLink has a dash", () => {
  const facts = (fields: object) => gpuFacts(gpu(0, fields)).filter(({ name }) => name.startsWith("NVLink"));
  const linked = facts({ nvlink_links: 18, nvlink_links_active: 17, nvlink_rx_bytes_per_second: 41.3e9, nvlink_tx_bytes_per_second: 250e6 });
  expect(linked.map(({ value, rest }) => [value, rest])).toEqual([["17", "/ 18 links up"], ["41 GB/s", "/ 250 MB/s"]]);
  expect(facts({ nvlink_links: null }).map(({ value, rest }) => [value, rest])).toEqual([["—", undefined], ["—", undefined]]);
});

it("the tooltip of an unknown fact says why", () => {
  const fan = gpuFacts(gpu(0, { unread: { fan_percent: "not supported" } })).find(({ name }) => name === "Fan");
  expect([fan?.value, fan?.tooltip]).toEqual(["—", "not supported"]);
});
