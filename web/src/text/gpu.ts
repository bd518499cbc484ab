// Every fact of a GPU, with a label in plain words and what each abbreviation means.

import type { GpuWhole } from "../feed/node";
import { type Fact, measured } from "./card";
import { NOT_MEASURED, gibibytes } from "./words";

const MEBI = 1024 * 1024;
type Field = keyof GpuWhole;

export function gpuFacts(gpu: GpuWhole): Fact[] {
  const told = (name: string, field: Field, value: string | null, rest?: string | null, meaning?: string): Fact => {
    const why = value === null ? (gpu.unread[field] ?? meaning) : meaning;
    return { name, value: value ?? NOT_MEASURED, ...(value !== null && rest && { rest }), ...(why && { meaning: why }) };
  };
  return [
    told("Memory", "memory_used_bytes", memory(gpu.memory_used_bytes), gpu.memory_total_bytes === null ? "GiB" : `/ ${memory(gpu.memory_total_bytes)} GiB`, gpu.memory_shared ? "it has none of its own: this is the machine's" : undefined),
    told("Utilisation", "busy_percent", number(gpu.busy_percent, " %"), null, "share of the time in which a kernel ran"),
    told("Memory in motion", "memory_busy_percent", number(gpu.memory_busy_percent, " %"), null, "share of the time in which its memory was read or written"),
    told("Power", "power_watts", number(gpu.power_watts, ""), of(gpu.power_limit_watts, "W")),
    told("Temperature", "temperature_celsius", number(gpu.temperature_celsius, " °C")),
    told("Fan", "fan_percent", number(gpu.fan_percent, " %"), null, "of the speed that it is made for; many servers cool their GPUs by fans of their own"),
    told("SM clock", "sm_clock_mhz", number(gpu.sm_clock_mhz, ""), of(gpu.sm_clock_max_mhz, "MHz"), "the clock of its streaming multiprocessors, of the greatest"),
    told("Memory clock", "memory_clock_mhz", number(gpu.memory_clock_mhz, ""), of(gpu.memory_clock_max_mhz, "MHz")),
    told("Performance state", "performance_state", gpu.performance_state, null, "P0 is the fastest, P12 the most sparing"),
    told("Throttling", "throttle_reasons", gpu.throttle_reasons === null ? null : gpu.throttle_reasons.map(plain).join(", ") || "none", null, "why it runs slower than it could"),
    told("ECC, corrected", "ecc_corrected", count(gpu.ecc_corrected), null, "memory errors that error-correcting code has mended since the driver was loaded"),
    told("ECC, not corrected", "ecc_uncorrected", count(gpu.ecc_uncorrected), null, "memory errors that could not be mended: results may be wrong"),
    told("PCIe", "pcie_generation", gpu.pcie_generation === null ? null : `gen ${gpu.pcie_generation} ×${gpu.pcie_width ?? "?"}`, greatestLink(gpu), "its link to the machine: generation and number of lanes; idle GPUs slow it down"),
    told("PCIe in / out", "pcie_rx_bytes_per_second", rate(gpu.pcie_rx_bytes_per_second), gpu.pcie_tx_bytes_per_second === null ? null : `/ ${rate(gpu.pcie_tx_bytes_per_second)}`, "what goes over its link to the machine"),
    told("Encoder / decoder", "encoder_percent", number(gpu.encoder_percent, " %"), gpu.decoder_percent === null ? null : `/ ${number(gpu.decoder_percent, " %")}`, "its parts for video"),
    told("Persistence", "persistence", yes(gpu.persistence), null, "whether the driver stays loaded while nobody uses it"),
    told("Compute mode", "compute_mode", gpu.compute_mode === null ? null : plain(gpu.compute_mode), null, "how many processes it lets in"),
    told("MIG", "mig_mode", yes(gpu.mig_mode), null, "Multi-Instance GPU: whether it is cut into instances"),
    told("PCI address", "pci_bus_id", gpu.pci_bus_id, null, "its place on the machine's bus, as the kernel's log names it"),
    { name: "UUID", value: gpu.uuid, ...(gpu.uuid_is_made && { rest: "made up" }), meaning: gpu.uuid_is_made ? "it tells none, so it goes by its place; CUDA does not know it by this" : "its own name, the same in whichever machine it is; good for CUDA_VISIBLE_DEVICES" },
  ];
}

function number(value: number | null, unit: string): string | null {
  return value === null ? null : measured(value, unit);
}

function memory(value: number | null): string | null {
  return value === null ? null : gibibytes(value / MEBI);
}

function of(value: number | null, unit: string): string {
  return value === null ? unit : `/ ${Math.round(value)} ${unit}`;
}

function count(value: number | null): string | null {
  return value === null ? null : value.toLocaleString("en");
}

function rate(value: number | null): string | null {
  return value === null ? null : `${(value / 1e6).toFixed(value < 1e7 ? 1 : 0)} MB/s`;
}

function greatestLink({ pcie_generation_max: generation, pcie_width_max: width }: GpuWhole): string | null {
  return generation === null ? null : `/ gen ${generation} ×${width ?? "?"}`;
}

function yes(value: boolean | null): string | null {
  return value === null ? null : value ? "on" : "off";
}

function plain(words: string): string {
  return words.replaceAll("_", " ");
}
