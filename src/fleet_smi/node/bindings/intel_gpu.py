"""Intel GPUs, discrete or integrated, from the files of the `xe` and `i915` drivers."""

import re
import time
from collections.abc import Callable
from typing import Any

from fleet_smi.errors import NotPresent
from fleet_smi.node.bindings import drm, drm_clients

_FREQUENCIES = {
    "xe": ("act_freq", "rp0_freq"),
    "i915": ("rps_act_freq_mhz", "rps_RP0_freq_mhz", "gt_act_freq_mhz", "gt_RP0_freq_mhz"),
}
_REASON = re.compile(r"(?:throttle_)?reason_[a-z0-9_]{1,40}", re.ASCII)
_ENERGY = re.compile(r"energy[0-9]{1,2}_input", re.ASCII)
# The card's own memory; not every kernel has these files.
_MEMORY = ("lmem_total_bytes", "lmem_avail_bytes")
_TILE_MEMORY = "physical_vram_size_bytes"

_energy: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}
"""(root, card) -> the energy counters of the last read: power is the difference of two."""


def read(root: str = "/", clock: Callable[[], float] = time.monotonic) -> dict[str, Any]:
    """Read every card of the drivers `xe` and `i915`; raise `NotPresent` if there is none."""
    cards = [_card(*card) for card in drm.iter_cards(root, tuple(_FREQUENCIES))]
    if not cards:
        raise NotPresent("no Intel GPU with the xe or i915 driver")
    for card in cards:
        card["energy_before"] = _energy_before((root, card["card"]), card["hwmon"], clock())
    nodes = {n: c["pci"] for c in cards if c["pci"] and not c["asleep"] for n in c["nodes"]}
    clients = drm_clients.read_clients(root, nodes)
    pids = [entry["pid"] for entry in clients["clients"]]
    return {"cards": cards, "drm": clients, "pids": pids}


def _card(
    identity: dict[str, Any], card: drm.SysfsFolder, device: drm.SysfsFolder
) -> dict[str, Any]:
    figures: dict[str, Any] = {"hwmon": {}, "link": {}, "gt": {}, "throttle": {}, "memory": {}}
    if not identity["asleep"]:
        gt = _gt_xe(device) if identity["driver"] == "xe" else _gt_i915(card)
        figures = {
            "hwmon": drm.read_sensors(device),
            "link": drm.read_pcie_link(device),
            **gt,
            "memory": card.read_texts(_MEMORY) | _tile_memory(device),
        }
    return {**identity, **figures, "refused": device.read_errors | card.read_errors}


def _gt_xe(device: drm.SysfsFolder) -> dict[str, dict[str, str]]:
    """Read the first GT, for compute and graphics; the second is for video."""
    folder = device.subfolder("tile0/gt0/freq0")
    throttle = folder.subfolder("throttle")
    reasons = throttle.read_texts(n for n in throttle.list_names() if _REASON.fullmatch(n))
    device.read_errors |= folder.read_errors
    return {"gt": folder.read_texts(_FREQUENCIES["xe"]), "throttle": reasons}


def _gt_i915(card: drm.SysfsFolder) -> dict[str, dict[str, str]]:
    folder = card.subfolder("gt/gt0")
    reasons = folder.read_texts(n for n in folder.list_names() if _REASON.fullmatch(n))
    names = _FREQUENCIES["i915"]
    # Older kernels have the files of the only GT in the card's own folder.
    return {"gt": card.read_texts(names) | folder.read_texts(names), "throttle": reasons}


def _tile_memory(device: drm.SysfsFolder) -> dict[str, str]:
    tiles = [name for name in device.list_names() if re.fullmatch(r"tile[0-9]", name, re.ASCII)]
    return device.read_texts(f"{tile}/{_TILE_MEMORY}" for tile in tiles)


def _energy_before(
    key: tuple[str, str], hwmon: dict[str, str], now: float
) -> dict[str, Any] | None:
    counters = {name: text for name, text in hwmon.items() if _ENERGY.fullmatch(name)}
    # Forgotten where there are no counters now: the mean power over a sleep would mislead.
    before = _energy.pop(key, None)
    if counters:
        _energy[key] = (now, counters)
    return {"seconds": now - before[0], "counters": before[1]} if before else None
