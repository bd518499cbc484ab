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

_TILE = re.compile(r"tile[0-9]", re.ASCII)
_GT = re.compile(r"\bgt[0-9]$", re.ASCII)
# Long enough for a load in percent from counters of milliseconds.
_FIRST_LOOK_SECONDS = 0.1

_energy: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}
"""(root, card) -> the energy counters of the last read: power is the difference of two."""


_idle: dict[tuple[str, str], tuple[float, dict[str, str]]] = {}
"""(root, card) -> the idle counters of the last read: utilisation is the difference of two."""


def read(
    root: str = "/",
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Read every card of the drivers `xe` and `i915`; raise `NotPresent` if there is none."""
    found = list(drm.iter_cards(root, tuple(_FREQUENCIES)))
    if not found:
        raise NotPresent("no Intel GPU with the xe or i915 driver")
    _look_once(root, found, clock, sleep)
    cards = [_card(*card) for card in found]
    for card, (_, folder, device) in zip(cards, found, strict=True):
        key = (root, card["card"])
        card["energy_before"] = _energy_before(key, card["hwmon"], clock())
        card["idle"], card["idle_before"] = _idle_counters(key, card, folder, device, clock)
    nodes = {n: c["pci"] for c in cards if c["pci"] and not c["asleep"] for n in c["nodes"]}
    clients = drm_clients.read_clients(root, nodes)
    pids = [entry["pid"] for entry in clients["clients"]]
    return {"cards": cards, "drm": clients, "pids": pids}


def _look_once(
    root: str,
    found: list[tuple[dict[str, Any], drm.SysfsFolder, drm.SysfsFolder]],
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> None:
    """Read the idle counters of cards that were not read before, so that one read gives a load."""
    new = [card for card in found if (root, card[0]["card"]) not in _idle]
    seen = [
        _idle_counters((root, identity["card"]), identity, folder, device, clock)[0]
        for identity, folder, device in new
    ]
    if any(seen):
        sleep(_FIRST_LOOK_SECONDS)


def _idle_counters(
    key: tuple[str, str],
    identity: dict[str, Any],
    card: drm.SysfsFolder,
    device: drm.SysfsFolder,
    clock: Callable[[], float],
) -> tuple[dict[str, str], dict[str, Any] | None]:
    """Return the milliseconds that each GT was idle, now and at the last read."""
    # Forgotten while it sleeps: the mean over a sleep would mislead, and a read would wake it.
    before = _idle.pop(key, None)
    if identity["asleep"]:
        return {}, None
    counters = _xe_idle(device) if identity["driver"] == "xe" else _i915_idle(card)
    now = clock()
    if counters:
        _idle[key] = (now, counters)
    return counters, {"seconds": now - before[0], "counters": before[1]} if before else None


def _xe_idle(device: drm.SysfsFolder) -> dict[str, str]:
    tiles = [name for name in device.list_names() if _TILE.fullmatch(name)]
    gts = [f"{tile}/{name}" for tile in tiles for name in device.list_names(tile)]
    return device.read_texts(f"{gt}/gtidle/idle_residency_ms" for gt in gts if _GT.search(gt))


def _i915_idle(card: drm.SysfsFolder) -> dict[str, str]:
    gts = [f"gt/{name}/rc6_residency_ms" for name in card.list_names("gt") if _GT.search(name)]
    # Older kernels have the counter of the only GT in the card's own folder.
    return card.read_texts(gts) or card.read_texts(("power/rc6_residency_ms",))


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
    tiles = [name for name in device.list_names() if _TILE.fullmatch(name)]
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
