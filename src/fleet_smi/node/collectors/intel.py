"""Intel GPUs, from the files of the `xe` and `i915` drivers."""

import re
from typing import Any

from fleet_smi.model.range_check import check_fields, check_temperature, first_known
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.node import drm_parsing as drm
from fleet_smi.node.collector import SnapshotPart

_MIN_POWER_SECONDS = 0.05
_NOT_OFFERED = "not offered by this driver without root"
_PREFIX = re.compile(r"(?:throttle_)?reason_", re.ASCII)
# The whole package, before a card without labels; "vram" is not the GPU's temperature.
_TEMPERATURE_LABELS = ("pkg", None)
# The whole card's power, else that of its package; some cards keep the card's counter at 0.
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
        """Parse what `bindings.intel_gpu.read` returned."""
        used_uuids: set[str] = set()
        cards = sorted(raw["cards"], key=lambda card: (card["pci"] or "", card["card"]))
        return SnapshotPart(
            gpus=tuple(_gpu(index, card, raw, used_uuids) for index, card in enumerate(cards))
        )


def _gpu(index: int, card: dict[str, Any], raw: dict[str, Any], used_uuids: set[str]) -> Gpu:
    unread: dict[str, str] = {}
    shared = _is_integrated(card)
    figures = _figures(card, unread)
    if not card["asleep"]:
        for name in ("busy_percent", "memory_used_bytes", "memory_total_bytes"):
            if figures.get(name) is None:
                unread.setdefault(name, _NOT_OFFERED)
    return drm.build_gpu(
        card,
        index,
        "intel",
        figures,
        _SOURCES,
        used_uuids,
        memory_shared=shared,
        throttle_reasons=_throttle_reasons(card["throttle"]),
        processes=_processes(card, raw, shared, unread),
        unread=unread,
    )


def _is_integrated(card: dict[str, Any]) -> bool:
    # Every Intel processor has its GPU at this address, and no card can be there.
    return bool(card["pci"] == "0000:00:02.0")


def _figures(card: dict[str, Any], unread: dict[str, str]) -> drm.GpuFields:
    hwmon, gt = card["hwmon"], card["gt"]
    total, used = _memory(card["memory"])
    fields = check_fields(
        {
            "busy_percent": _busy(card["idle"], card["idle_before"]),
            "memory_total_bytes": total,
            "memory_used_bytes": used,
            "power_watts": _power(hwmon, card["energy_before"]),
            "power_limit_watts": _power_limit(hwmon),
            "sm_clock_mhz": _first_of(gt, "act_freq", "rps_act_freq_mhz", "gt_act_freq_mhz"),
            "sm_clock_max_mhz": _first_of(gt, "rp0_freq", "rps_RP0_freq_mhz", "gt_RP0_freq_mhz"),
            "memory_temperature_celsius": drm.parse_scaled(
                drm.sensor_value(hwmon, "temp", "vram"), 1000
            ),
            "energy_joules": _energy(hwmon),
            **drm.pcie_link_fields(card["link"]),
        },
        unread,
    )
    celsius = drm.first_temperature(hwmon, _TEMPERATURE_LABELS)
    fields["temperature_celsius"] = check_temperature(celsius, None, unread)
    drm.explain_read_errors(card, fields, _SOURCES, unread)
    return fields


def _first_of(files: dict[str, str], *names: str) -> int | None:
    value: int | None = first_known(*(drm.parse_int(files.get(name)) for name in names))
    return value


def _power(hwmon: dict[str, str], before: dict[str, Any] | None) -> float | None:
    """Return the mean power since the last reading: the drivers count energy only."""
    if before is None or before["seconds"] < _MIN_POWER_SECONDS:
        return None
    for label in _POWER_LABELS:
        name = drm.find_sensor(hwmon, "energy", label, "input")
        if name is None:
            continue
        now, then = drm.parse_int(hwmon[name]), drm.parse_int(before["counters"].get(name))
        # A counter that went back was reset, or has overflowed.
        if now and then is not None and now >= then:
            return float((now - then) / drm.MICRO / before["seconds"])
    return None


def _busy(idle: dict[str, str], before: dict[str, Any] | None) -> float | None:
    """Return the share of time since the last reading in which the busiest GT was not idle."""
    if before is None or before["seconds"] < _MIN_POWER_SECONDS:
        return None
    loads = []
    for name, text in idle.items():
        now, then = drm.parse_int(text), drm.parse_int(before["counters"].get(name))
        # A counter that went back was reset, or has overflowed.
        if now is not None and then is not None and now >= then:
            share = (now - then) / 1000 / before["seconds"]
            # The counter is updated at other times than the clock: it may seem to run ahead.
            loads.append(100.0 * (1 - min(1.0, share)))
    return max(loads, default=None)


def _energy(hwmon: dict[str, str]) -> float | None:
    # Some cards have a counter that stays at 0: the next label is the one that counts.
    counters = (
        drm.parse_scaled(drm.sensor_value(hwmon, "energy", label), drm.MICRO)
        for label in _POWER_LABELS
    )
    return next((joules for joules in counters if joules), None)


def _power_limit(hwmon: dict[str, str]) -> float | None:
    # 0 is written when there is no limit.
    limits = (
        drm.parse_scaled(drm.sensor_value(hwmon, "power", label, "max"), drm.MICRO)
        for label in _POWER_LABELS
    )
    return next((limit for limit in limits if limit), None)


def _memory(files: dict[str, str]) -> tuple[int | None, int | None]:
    """Return total and used bytes of the card's own memory, where the kernel has such files."""
    total, free = (
        drm.parse_int(files.get("lmem_total_bytes")),
        drm.parse_int(files.get("lmem_avail_bytes")),
    )
    if total:
        return total, None if free is None else total - free
    tiles = [drm.parse_int(text) for name, text in files.items() if name.startswith("tile")]
    known = [size for size in tiles if size is not None]
    # A sum without one of the tiles would be too small.
    return (sum(known) or None if known and len(known) == len(tiles) else None), None


def _throttle_reasons(files: dict[str, str]) -> tuple[str, ...] | None:
    found = {_PREFIX.sub("", name): drm.parse_int(text) for name, text in files.items()}
    found.pop("status", None)  # it is set when any of the others is
    # One unreadable reason could be the one that is set: all or nothing.
    if not found or None in found.values():
        return None
    return tuple(sorted(name for name, set_now in found.items() if set_now))


def _processes(
    card: dict[str, Any], raw: dict[str, Any], shared: bool, unread: dict[str, str]
) -> tuple[Process, ...] | None:
    def counts(region: str) -> bool:
        return shared or region.startswith(("vram", "local"))

    found = drm.client_processes(raw["drm"], card["pci"], counts)
    missing = "asleep: not read" if card["asleep"] else drm.missing_clients_reason(raw["drm"])
    if missing:
        unread["processes"] = f"clients may be missing: {missing}"
    # Unknown, not empty: an empty list would make the GPU look free.
    if missing and not found:
        return None
    return tuple(found[pid] for pid in sorted(found))
