// The facts of a GPU, with tooltips for abbreviations.

import type { JudgedGpu } from "../feed/types";
import { type Fact, formatReading } from "./card";
import { UNKNOWN, gibibytes } from "./format";

const MIB = 1024 * 1024;
type Field = keyof JudgedGpu;

export function gpuFacts(gpu: JudgedGpu): Fact[] {
  // The tooltip of a value that could not be read says why.
  const fact = (name: string, field: Field, value: string | null, rest?: string | null, tooltip?: string): Fact => {
    const shown = value === null ? (gpu.unread[field] ?? tooltip) : tooltip;
    return { name, value: value ?? UNKNOWN, ...(value !== null && rest && { rest }), ...(shown && { tooltip: shown }) };
  };
  return [
    fact("Memory", "memory_used_bytes", memory(gpu.memory_used_bytes), gpu.memory_total_bytes === null ? "GiB" : `/ ${memory(gpu.memory_total_bytes)} GiB`, gpu.memory_shared ? "shared with the host" : undefined),
    fact("Utilisation", "busy_percent", number(gpu.busy_percent, " %"), null, "share of time with a kernel running"),
    fact("Memory bandwidth", "memory_busy_percent", number(gpu.memory_busy_percent, " %"), null, "share of time with memory being read or written; not bytes per second"),
    fact("Power", "power_watts", number(gpu.power_watts, ""), limit(gpu.power_limit_watts, "W")),
    fact("Temperature", "temperature_celsius", number(gpu.temperature_celsius, " °C")),
    fact("Fan", "fan_percent", number(gpu.fan_percent, " %"), null, "percent of maximum speed; most server GPUs have no fan of their own"),
    fact("SM clock", "sm_clock_mhz", number(gpu.sm_clock_mhz, ""), limit(gpu.sm_clock_max_mhz, "MHz"), "streaming multiprocessor clock and its maximum"),
    fact("Memory clock", "memory_clock_mhz", number(gpu.memory_clock_mhz, ""), limit(gpu.memory_clock_max_mhz, "MHz")),
    fact("Performance state", "performance_state", gpu.performance_state, null, "P0 is the fastest, P12 the slowest"),
    fact("Throttling", "throttle_reasons", gpu.throttle_reasons === null ? null : gpu.throttle_reasons.map(plain).join(", ") || "none", null, "why the clock is reduced"),
    fact("ECC corrected", "ecc_corrected", count(gpu.ecc_corrected), null, "memory errors corrected since the driver was loaded"),
    fact("ECC uncorrected", "ecc_uncorrected", count(gpu.ecc_uncorrected), null, "memory errors that could not be corrected: results may be wrong"),
    fact("PCIe", "pcie_generation", gpu.pcie_generation === null ? null : `gen ${gpu.pcie_generation} ×${gpu.pcie_width ?? "?"}`, maxLink(gpu), "PCI Express generation and lanes; idle GPUs slow the link down"),
    fact("PCIe in / out", "pcie_rx_bytes_per_second", rate(gpu.pcie_rx_bytes_per_second), gpu.pcie_tx_bytes_per_second === null ? null : `/ ${rate(gpu.pcie_tx_bytes_per_second)}`, "PCI Express traffic to and from the GPU"),
    fact("NVLink", "nvlink_links", gpu.nvlink_links === null ? null : `${gpu.nvlink_links_active ?? "?"}`, `/ ${gpu.nvlink_links} links up`, "direct links to other GPUs; not every card has them"),
    fact("NVLink in / out", "nvlink_rx_bytes_per_second", rate(gpu.nvlink_rx_bytes_per_second), gpu.nvlink_tx_bytes_per_second === null ? null : `/ ${rate(gpu.nvlink_tx_bytes_per_second)}`, "traffic over all NVLink links together, mean over the last 10 s"),
    fact("Encoder / decoder", "encoder_percent", number(gpu.encoder_percent, " %"), gpu.decoder_percent === null ? null : `/ ${number(gpu.decoder_percent, " %")}`, "video engine utilisation"),
    fact("Persistence", "persistence", onOff(gpu.persistence), null, "whether the driver stays loaded while the GPU is not in use"),
    fact("Compute mode", "compute_mode", gpu.compute_mode === null ? null : plain(gpu.compute_mode), null, "how many processes may use it"),
    fact("MIG", "mig_mode", onOff(gpu.mig_mode), null, "Multi-Instance GPU: whether it is partitioned"),
    fact("PCI address", "pci_bus_id", gpu.pci_bus_id, null, "bus address, as in the kernel log"),
    { name: "UUID", value: gpu.uuid, ...(gpu.uuid_is_made && { rest: "generated" }), tooltip: gpu.uuid_is_made ? "derived from its slot because the GPU reports none; CUDA does not accept it" : "unique identifier, accepted by CUDA_VISIBLE_DEVICES" },
  ];
}

function number(value: number | null, unit: string): string | null {
  return value === null ? null : formatReading(value, unit);
}

function memory(value: number | null): string | null {
  return value === null ? null : gibibytes(value / MIB);
}

function limit(value: number | null, unit: string): string {
  return value === null ? unit : `/ ${Math.round(value)} ${unit}`;
}

function count(value: number | null): string | null {
  return value === null ? null : value.toLocaleString("en");
}

function rate(value: number | null): string | null {
  if (value === null) return null;
  if (value >= 1e9) return `${(value / 1e9).toFixed(value < 1e10 ? 1 : 0)} GB/s`;
  return `${(value / 1e6).toFixed(value < 1e7 ? 1 : 0)} MB/s`;
}

function maxLink({ pcie_generation_max: generation, pcie_width_max: width }: JudgedGpu): string | null {
  return generation === null ? null : `/ gen ${generation} ×${width ?? "?"}`;
}

function onOff(value: boolean | null): string | null {
  return value === null ? null : value ? "on" : "off";
}

function plain(text: string): string {
  return text.replaceAll("_", " ");
}
