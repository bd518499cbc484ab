"""Intel GPUs, from the files of the `xe` and `i915` drivers."""

import re
from typing import Any

from fleet_smi.model.pci import first_unused_id
from fleet_smi.model.pci_names import pci_name
from fleet_smi.model.range_check import check_fields, check_temperature, first_known
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.node.collector import SnapshotPart
from fleet_smi.node.drm_parsing import (
    GpuFields,
    client_processes,
    detect_fault,
    explain_read_errors,
    find_sensor,
    missing_clients_reason,
    parse_int,
    parse_scaled,
    pci_bus_id,
    pcie_link_fields,
    sensor_value,
)

_MICRO = 1_000_000
_SHORTEST_SECONDS = 0.05
_NOT_OFFERED = "not offered by this driver without root"
_PREFIX = re.compile(r"(?:throttle_)?reason_", re.ASCII)
# The whole package, before a card without labels; "vram" is not the GPU's temperature.
_TEMPERATURE_LABELS = ("pkg", None)
# What the card draws, else what its package does; some cards keep a card counter at 0.
_POWER_LABELS = ("card", "pkg", None)
_SOURCES = {
    "temp1_input": "temperature_celsius",
    "temp2_input": "temperature_celsius",
    "energy1_input": "power_watts",
    "energy2_input": "power_watts",
    "power1_max": "power_limit_watts",
    "act_freq": "sm_clock_mhz",
    "gt_act_freq_mhz": "sm_clock_mhz",
}


class IntelCollector:
    """Intel GPUs, from the files of the `xe` and `i915` drivers."""

    name = "intel"

    def parse(self, raw: Any) -> SnapshotPart:
        """Make GPUs of what `bindings.intel_gpu.read` returned."""
        taken: set[str] = set()
        cards = sorted(raw["cards"], key=lambda card: (card["pci"] or "", card["card"]))
        return SnapshotPart(
            gpus=tuple(_gpu(index, card, raw, taken) for index, card in enumerate(cards))
        )


def _gpu(index: int, card: dict[str, Any], raw: dict[str, Any], taken: set[str]) -> Gpu:
    unread: dict[str, str] = {}
    shared = _is_in_the_processor(card)
    figures = _figures(card, unread)
    if not card["asleep"]:
        for name in ("busy_percent", "memory_used_bytes", "memory_total_bytes"):
            if figures.get(name) is None:
                unread.setdefault(name, _NOT_OFFERED)
    address = f"intel-{card['pci']}" if card["pci"] else None
    return Gpu(
        uuid=first_unused_id((address, f"intel-{card['card']}"), taken),
        uuid_is_made=True,
        index=index,
        vendor="intel",
        name=_name(card),
        pci_bus_id=pci_bus_id(card),
        memory_shared=shared,
        throttle_reasons=_throttle_reasons(card["throttle"]),
        asleep=card["asleep"],
        processes=_processes(card, raw, shared, unread),
        fault=detect_fault(card, (figures[name] for name in set(_SOURCES.values()))),
        **figures,
        unread=unread,
    )


def _name(card: dict[str, Any]) -> str:
    pci_id = sanitize_text((card["pci_id"] or "unknown").lower(), 16)
    return pci_name(pci_id) or f"Intel GPU [{pci_id}]"


def _is_in_the_processor(card: dict[str, Any]) -> bool:
    # Every Intel processor has its GPU there, and no card can be there.
    return bool(card["pci"] == "0000:00:02.0")


def _figures(card: dict[str, Any], unread: dict[str, str]) -> GpuFields:
    hwmon, gt = card["hwmon"], card["gt"]
    total, used = _memory(card["memory"])
    fields = check_fields(
        {
            "memory_total_bytes": total,
            "memory_used_bytes": used,
            "power_watts": _power(hwmon, card["energy_before"]),
            "power_limit_watts": _power_limit(hwmon),
            "sm_clock_mhz": _first_of(gt, "act_freq", "rps_act_freq_mhz", "gt_act_freq_mhz"),
            "sm_clock_max_mhz": _first_of(gt, "rp0_freq", "rps_RP0_freq_mhz", "gt_RP0_freq_mhz"),
            "memory_temperature_celsius": parse_scaled(sensor_value(hwmon, "temp", "vram"), 1000),
            "energy_joules": _energy(hwmon),
            **pcie_link_fields(card["link"]),
        },
        unread,
    )
    heat = first_known(
        *(parse_scaled(sensor_value(hwmon, "temp", at), 1000) for at in _TEMPERATURE_LABELS)
    )
    fields["temperature_celsius"] = check_temperature(heat, None, unread)
    explain_read_errors(card, fields, _SOURCES, unread)
    return fields


def _first_of(files: dict[str, str], *names: str) -> int | None:
    value: int | None = first_known(*(parse_int(files.get(name)) for name in names))
    return value


def _power(hwmon: dict[str, str], before: dict[str, Any] | None) -> float | None:
    """Return what was drawn since the last reading: the drivers count energy only."""
    if before is None or before["seconds"] < _SHORTEST_SECONDS:
        return None
    for label in _POWER_LABELS:
        name = find_sensor(hwmon, "energy", label, "input")
        if name is None:
            continue
        now, then = parse_int(hwmon[name]), parse_int(before["counters"].get(name))
        if now and then is not None and now >= then:
            return float((now - then) / _MICRO / before["seconds"])
    return None


def _energy(hwmon: dict[str, str]) -> float | None:
    # Some cards have a counter that stays at 0: the next label is the one that counts.
    counters = (parse_scaled(sensor_value(hwmon, "energy", at), _MICRO) for at in _POWER_LABELS)
    return next((joules for joules in counters if joules), None)


def _power_limit(hwmon: dict[str, str]) -> float | None:
    # 0 is written when there is no limit.
    limits = (parse_scaled(sensor_value(hwmon, "power", at, "max"), _MICRO) for at in _POWER_LABELS)
    return next((limit for limit in limits if limit), None)


def _memory(files: dict[str, str]) -> tuple[int | None, int | None]:
    """Return total and used bytes of the card's own memory, where a kernel tells them."""
    total, free = parse_int(files.get("lmem_total_bytes")), parse_int(files.get("lmem_avail_bytes"))
    if total:
        return total, None if free is None else total - free
    tiles = [parse_int(text) for name, text in files.items() if name.startswith("tile")]
    known = [size for size in tiles if size is not None]
    return (sum(known) or None if known and len(known) == len(tiles) else None), None


def _throttle_reasons(files: dict[str, str]) -> tuple[str, ...] | None:
    found = {_PREFIX.sub("", name): parse_int(text) for name, text in files.items()}
    found.pop("status", None)  # any of the others
    if not found or None in found.values():
        return None
    return tuple(sorted(name for name, set_now in found.items() if set_now))


def _processes(
    card: dict[str, Any], raw: dict[str, Any], shared: bool, unread: dict[str, str]
) -> tuple[Process, ...] | None:
    def counts(region: str) -> bool:
        return shared or region.startswith(("vram", "local"))

    found = client_processes(raw["drm"], card["pci"], counts)
    missing = "asleep: not asked" if card["asleep"] else missing_clients_reason(raw["drm"])
    if missing:
        unread["processes"] = f"clients may be missing: {missing}"
    if missing and not found:
        return None
    return tuple(found[pid] for pid in sorted(found))
