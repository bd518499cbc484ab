"""NVIDIA GPUs, from the values that NVML returned."""

import re
from functools import lru_cache
from typing import Any

from fleet_smi.model.pci import normalize_pci_address
from fleet_smi.model.range_check import (
    check_fields,
    check_memory_used,
    check_range,
    check_temperature,
)
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Gpu, Host, Instance, Process, ProcessKind
from fleet_smi.model.throttle_reasons import NVIDIA_THROTTLE_REASONS
from fleet_smi.node.collector import SnapshotPart
from fleet_smi.node.nvml_faults import (
    ERROR_TEXTS,
    FUNCTION_NOT_FOUND,
    GPU_LOST,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    errors_are_contained,
    fault_from_codes,
    reset_pending,
)

_UNREPORTED = (NOT_SUPPORTED, FUNCTION_NOT_FOUND)  # the card lacks it: no reason is needed
THROTTLE_REASONS = {1 << bit: name for bit, name in enumerate(NVIDIA_THROTTLE_REASONS)}
ON_OFF = {0: False, 1: True}
PERFORMANCE_STATES = {number: f"P{number}" for number in range(16)} | {32: None}
COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}
# Raw field of the binding -> fields of the model that are unknown when it failed.
MODEL_FIELDS: dict[str, tuple[str, ...]] = {
    "memory": ("memory_used_bytes", "memory_total_bytes"),
    "utilization": ("busy_percent", "memory_busy_percent"),
    "temperature": ("temperature_celsius",),
    "fan": ("fan_percent",),
    "power": ("power_watts",),
    "power_limit": ("power_limit_watts",),
    "sm_clock": ("sm_clock_mhz",),
    "sm_clock_max": ("sm_clock_max_mhz",),
    "memory_clock": ("memory_clock_mhz",),
    "memory_clock_max": ("memory_clock_max_mhz",),
    "performance_state": ("performance_state",),
    "throttle": ("throttle_reasons",),
    "ecc_corrected": ("ecc_corrected",),
    "ecc_uncorrected": ("ecc_uncorrected",),
    "pcie_generation": ("pcie_generation",),
    "pcie_generation_max": ("pcie_generation_max",),
    "pcie_width": ("pcie_width",),
    "pcie_width_max": ("pcie_width_max",),
    "pcie_rx": ("pcie_rx_bytes_per_second",),
    "pcie_tx": ("pcie_tx_bytes_per_second",),
    "nvlink": ("nvlink_links", "nvlink_links_active"),
    "nvlink_traffic": ("nvlink_rx_bytes_per_second", "nvlink_tx_bytes_per_second"),
    "encoder": ("encoder_percent",),
    "decoder": ("decoder_percent",),
    "memory_temperature": ("memory_temperature_celsius",),
    "energy": ("energy_joules",),
    "persistence": ("persistence",),
    "compute_mode": ("compute_mode",),
    "mig_mode": ("mig_mode",),
    "instances": ("instances",),
}
# Chips that use the host's memory, by name: not all of them report their addressing mode.
_INTEGRATED = r"\b(GB10|Orin|Thor|Xavier|Tegra|nvgpu)\b"
_ATS = 2  # NVML's addressing mode of a GPU that shares the page tables of the host


class NvidiaCollector:
    """Turns NVML's values into GPUs: units, names, faults and processes."""

    name = "nvidia"

    def __init__(self) -> None:
        self._identities: dict[tuple[Any, ...], dict[str, Any]] = {}

    def parse(self, raw: Any) -> SnapshotPart:
        gpus = tuple(
            _gpu(device, self._identity(device, raw["kernel"])) for device in raw["devices"]
        )
        return SnapshotPart(
            gpus=gpus,
            host=Host(
                driver_version=sanitize_text(raw["driver"], 64) if raw.get("driver") else None,
                cuda_version=_cuda(raw.get("cuda")),
            ),
        )

    def _identity(self, device: dict[str, Any], kernel: list[dict[str, Any]]) -> dict[str, Any]:
        """The device's identity, cached because it is the same at every sample."""
        values, index = device["values"], device["index"]
        # A lost device no longer returns its identity; the kernel lists devices in the same order.
        known = kernel[index] if index < len(kernel) else {}
        pci = values.get("pci") or known.get("pci")
        uuid = values.get("uuid") or known.get("uuid")
        name = values.get("name") or known.get("name")
        key = index, pci, uuid, name
        identity = self._identities.get(key)
        if identity is None:
            identity = self._identities[key] = _identity(index, pci, uuid, name)
        return identity


def _cuda(number: int | None) -> str | None:
    if number is None or not 1000 <= number < 100_000:
        return None
    # 12040 is 12.4.
    return f"{number // 1000}.{number % 1000 // 10}"


def _gpu(device: dict[str, Any], identity: dict[str, Any]) -> Gpu:
    values, errors = device["values"], device["errors"]
    fault = fault_from_codes(values, errors)
    # A lost device fails every call with the same code: the fault states it once.
    lost = fault is not None and {GPU_LOST, RESET_REQUIRED} & set(errors.values())
    unread = {} if lost else _reasons(errors)
    used, total, _ = values.get("memory") or (None, None, None)
    busy, memory_busy = values.get("utilization") or (None, None)
    links, active = values.get("nvlink") or (None, None)
    received, sent = values.get("nvlink_traffic") or (None, None)
    fields = {
        # Chips without memory of their own report a total of 0: 0 bytes used would look free.
        "memory_used_bytes": used if total else None,
        "memory_total_bytes": total or None,
        "busy_percent": busy,
        "memory_busy_percent": memory_busy,
        "fan_percent": values.get("fan"),
        "power_watts": _from_milli(values.get("power")),
        "power_limit_watts": _from_milli(values.get("power_limit")),
        "sm_clock_mhz": values.get("sm_clock"),
        "sm_clock_max_mhz": values.get("sm_clock_max"),
        "memory_clock_mhz": values.get("memory_clock"),
        "memory_clock_max_mhz": values.get("memory_clock_max"),
        "ecc_corrected": values.get("ecc_corrected"),
        "ecc_uncorrected": values.get("ecc_uncorrected"),
        "pcie_generation": values.get("pcie_generation"),
        "pcie_generation_max": values.get("pcie_generation_max"),
        "pcie_width": values.get("pcie_width"),
        "pcie_width_max": values.get("pcie_width_max"),
        "pcie_rx_bytes_per_second": _from_kilo(values.get("pcie_rx")),
        "pcie_tx_bytes_per_second": _from_kilo(values.get("pcie_tx")),
        "nvlink_links": links,
        "nvlink_links_active": active,
        "nvlink_rx_bytes_per_second": _from_kibi(received),
        "nvlink_tx_bytes_per_second": _from_kibi(sent),
        "encoder_percent": values.get("encoder"),
        "decoder_percent": values.get("decoder"),
        "memory_temperature_celsius": values.get("memory_temperature"),
        "energy_joules": _from_milli(values.get("energy")),
    }
    return Gpu(
        **check_fields(fields, unread),
        **identity,
        vendor="nvidia",
        memory_shared=_is_shared(values, errors),
        temperature_celsius=check_temperature(values.get("temperature"), busy, unread),
        performance_state=_one_of("performance_state", values, PERFORMANCE_STATES, unread),
        throttle_reasons=_throttle(values.get("throttle"), unread),
        persistence=_one_of("persistence", values, ON_OFF, unread),
        compute_mode=_one_of("compute_mode", values, COMPUTE_MODES, unread),
        mig_mode=_one_of("mig_mode", values, ON_OFF, unread),
        asleep=device.get("asleep", False),
        instances=_instances(device, identity["uuid"]) if "instances" in device else (),
        processes=_processes(device.get("processes"), unread),
        fault=fault,
        ecc_contained=errors_are_contained(values),
        reset_pending=reset_pending(values),
        unread=unread,
    )


def _identity(index: int, pci: str | None, uuid: str | None, name: str | None) -> dict[str, Any]:
    return {
        "index": index,
        "uuid": sanitize_text(uuid or f"GPU-of-unknown-uuid-{index}", 96),
        "uuid_is_made": not uuid,
        "name": sanitize_text(name, 128) if name else None,
        "pci_bus_id": normalize_pci_address(pci) if pci else None,
    }


def _reasons(errors: dict[str, int]) -> dict[str, str]:
    return {
        field: ERROR_TEXTS.get(code, f"NVML error {code}")
        for raw_field, code in errors.items()
        if code not in _UNREPORTED
        for field in MODEL_FIELDS.get(raw_field, ())
    }


def _from_milli(value: int | None) -> float | None:
    return None if value is None else value / 1000


def _from_kilo(value: int | None) -> int | None:
    return None if value is None else value * 1000


def _from_kibi(value: int | None) -> int | None:
    return None if value is None else value * 1024


def _one_of(
    field: str, values: dict[str, Any], meanings: dict[int, Any], unread: dict[str, str]
) -> Any:
    """Translate a number into its meaning; an unknown number becomes `None` with a reason."""
    value = values.get(field)
    if value is not None and value not in meanings:
        unread[field] = f"out of range: {value}"
    return None if value is None else meanings.get(value)


def _throttle(mask: int | None, unread: dict[str, str]) -> tuple[str, ...] | None:
    if mask is None:
        return None
    # All ones is "not available", not every reason at once.
    if mask >= 1 << 32 or mask == (1 << 32) - 1:
        unread["throttle_reasons"] = f"out of range: {mask}"
        return None
    return _throttle_reasons(mask)


@lru_cache(maxsize=64)  # a machine has a few masks, and reads one per GPU and sample
def _throttle_reasons(mask: int) -> tuple[str, ...]:
    return tuple([name for bit, name in THROTTLE_REASONS.items() if mask & bit])


def _is_shared(values: dict[str, Any], errors: dict[str, int]) -> bool:
    """Whether the device uses the host's memory; never true of a lost one."""
    total = (values.get("memory") or (None, None, None))[1]
    if errors.get("memory") != NOT_SUPPORTED and total != 0:
        return False
    return values.get("addressing") == _ATS or bool(
        re.search(_INTEGRATED, values.get("name") or "", re.IGNORECASE)
    )


def _instances(device: dict[str, Any], uuid: str) -> tuple[Instance, ...]:
    return tuple([_instance(part, uuid) for part in device["instances"]])


def _instance(part: dict[str, Any], parent_uuid: str) -> Instance:
    values = part["values"]
    unread = _reasons(part["errors"])
    used, total, _ = values.get("memory") or (None, None, None)
    total = check_range("memory_total_bytes", total, unread)
    _, _, profile = (values.get("name") or "").partition("MIG ")
    return Instance(
        uuid=sanitize_text(values.get("uuid") or f"{parent_uuid}/mig-{part['index']}", 128),
        uuid_is_made=not values.get("uuid"),
        gpu_instance_id=values.get("gpu_instance_id"),
        compute_instance_id=values.get("compute_instance_id"),
        profile=sanitize_text(profile, 32) or None,
        memory_used_bytes=check_memory_used(used, total, unread),
        memory_total_bytes=total,
        processes=_processes(part.get("processes"), unread),
        unread=unread,
    )


def _processes(lists: dict[str, Any] | None, unread: dict[str, str]) -> tuple[Process, ...] | None:
    if lists is None:
        return None
    # The compute list decides: not every card and driver has the other two.
    error_code = lists["errors"].get("compute")
    if error_code is not None:
        unread["processes"] = ERROR_TEXTS.get(error_code, "not supported")
        return None
    found: dict[int, Process] = {}
    for kind in ("compute", "graphics", "mps"):
        for pid, memory, _, _ in lists.get(kind, ()):
            before = found.get(pid)
            found[pid] = Process(
                pid=pid,
                kind=_merge_kinds(before.kind, kind) if before else kind,
                gpu_memory_bytes=_memory(memory, before),
                busy_percent=check_range("busy_percent", lists.get("busy", {}).get(pid), {}),
            )
    return tuple(found.values())


def _merge_kinds(before: ProcessKind, kind: str) -> ProcessKind:
    if kind == "mps":
        return "mps"
    return "compute+graphics" if {before, kind} == {"compute", "graphics"} else before


def _memory(memory: int | None, before: Process | None) -> int | None:
    checked = check_range("gpu_memory_bytes", memory, {})
    if before is None or before.gpu_memory_bytes is None:
        return checked
    # A process that is in two lists has its whole memory in each: not the sum.
    return max(checked or 0, before.gpu_memory_bytes)
