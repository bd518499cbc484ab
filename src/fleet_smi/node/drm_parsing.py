"""Parsing of DRM drivers' files, shared by the AMD and Intel collectors. Pure."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from fleet_smi.model.pci import first_unused_id, normalize_pci_address
from fleet_smi.model.pci_names import pci_name
from fleet_smi.model.range_check import check_range, first_known
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Fault, Gpu, Process, ProcessKind, Vendor

MICRO = 1_000_000
"""The kernel's unit of power and energy: micro-watts, micro-joules."""

_WHOLE = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) ?GT/s", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,20})(?: (KiB|MiB|GiB))?", re.ASCII)
_UNITS = {None: 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
# GT/s per lane -> PCIe generation.
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_ERROR_TEXTS = {
    "EACCES": "not permitted",
    "EPERM": "not permitted",
    "EBUSY": "the device is busy",
    "EOPNOTSUPP": "not supported by this device",
}
# What a driver returns for a device that no longer answers it.
_DEVICE_LOST = frozenset({"EIO", "ENXIO", "ENODEV", "ETIME", "ETIMEDOUT"})

GpuFields = dict[str, Any]

_DEVICE_LABELS: dict[Vendor, str] = {
    "amd": "AMD GPU",
    "intel": "Intel GPU",
    "nvidia": "NVIDIA GPU",
}


def build_gpu(
    card: dict[str, Any],
    index: int,
    vendor: Vendor,
    figures: GpuFields,
    sources: dict[str, str],
    used_uuids: set[str],
    *,
    uuid: str | None = None,
    name: str = "",
    **fields: Any,
) -> Gpu:
    """Build the `Gpu` of a card from its figures.

    Without a UUID of its own a card is known by its PCI address, and without that by its
    number. `sources` has the field that each file gives.
    """
    address_id = f"{vendor}-{card['pci']}" if card["pci"] else None
    unique = first_unused_id((uuid, address_id, f"{vendor}-{card['card']}"), used_uuids)
    pci_id = sanitize_text((card["pci_id"] or "unknown").lower(), 16)
    return Gpu(
        uuid=unique,
        uuid_is_made=unique != uuid,
        index=index,
        vendor=vendor,
        name=name or pci_name(pci_id) or f"{_DEVICE_LABELS[vendor]} [{pci_id}]",
        pci_bus_id=normalize_pci_address(card["pci"]) if card["pci"] else None,
        asleep=card["asleep"],
        fault=detect_fault(card, (figures[field] for field in set(sources.values()))),
        **figures,
        **fields,
    )


def parse_int(text: str | None) -> int | None:
    """Return the integer that `text` is, if it is nothing else."""
    return int(text) if text is not None and _WHOLE.fullmatch(text.strip()) else None


def parse_scaled(text: str | None, divisor: int) -> float | None:
    """Return an integer in a unit that is `divisor` times larger; `None` if it is not one."""
    value = parse_int(text)
    return None if value is None else value / divisor


def parse_scaled_int(text: str | None, divisor: int) -> int | None:
    """Return the result of `parse_scaled`, rounded to an integer."""
    value = parse_scaled(text, divisor)
    return None if value is None else round(value)


def sensor_value(
    hwmon: dict[str, str], kind: str, label: str | None, suffix: str = "input"
) -> str | None:
    """Return the reading of the sensor with this label; with `None`, of the first without one."""
    name = find_sensor(hwmon, kind, label, suffix)
    return hwmon[name] if name else None


def find_sensor(hwmon: dict[str, str], kind: str, label: str | None, suffix: str) -> str | None:
    """Return the file of the sensor with this label; with `None`, of the first without one."""
    # hwmon numbers sensors from 1; which number has which label differs between cards.
    for number in range(1, 17):
        name = f"{kind}{number}_{suffix}"
        if hwmon.get(f"{kind}{number}_label") == label and name in hwmon:
            return name
    return None


def first_temperature(hwmon: dict[str, str], labels: Iterable[str | None]) -> float | None:
    """Return the first temperature that can be read, in Celsius, of the sensors `labels`."""
    celsius: float | None = first_known(
        *(parse_scaled(sensor_value(hwmon, "temp", label), 1000) for label in labels)
    )
    return celsius


def pcie_link_fields(link: dict[str, str]) -> dict[str, int | None]:
    """Return the PCIe fields of a `Gpu`; `None` for those that cannot be read."""
    return {
        "pcie_generation": _generation(link.get("current_link_speed")),
        "pcie_generation_max": _generation(link.get("max_link_speed")),
        "pcie_width": _width(link.get("current_link_width")),
        "pcie_width_max": _width(link.get("max_link_width")),
    }


def _generation(text: str | None) -> int | None:
    match = _SPEED.match(text or "")
    return _GENERATIONS.get(float(match[1])) if match else None


def _width(text: str | None) -> int | None:
    # The kernel writes 0 for a GPU without a link and 63, all bits, for one off the bus.
    width = parse_int(text)
    return width if width is not None and 0 < width <= 32 else None


def detect_fault(card: dict[str, Any], values: Iterable[Any]) -> Fault | None:
    """Return the fault of a card that clearly cannot be read."""
    link = card["link"]
    if link.get("current_link_width") == "63" and not _generation(link.get("current_link_speed")):
        return Fault(kind="lost", detail="its PCIe link reads as all ones: off the bus")
    dead = sorted(
        f"{name}: {error}" for name, error in card["refused"].items() if error in _DEVICE_LOST
    )
    # One failing sensor is no fault of the card: nothing at all must be readable.
    if dead and all(figure is None for figure in values):
        return Fault(kind="unreadable", detail=f"the driver cannot read the device ({dead[0]})")
    return None


def explain_read_errors(
    card: dict[str, Any], fields: GpuFields, sources: dict[str, str], unread: dict[str, str]
) -> None:
    """Add to `unread` the reason for each field whose file could not be read."""
    for name, field in sources.items():
        error = card["refused"].get(name)
        if error is not None and fields.get(field) is None:
            unread.setdefault(field, _ERROR_TEXTS.get(error, f"the driver returned {error}"))


def client_processes(
    raw: dict[str, Any], pci: str | None, counts_region: Callable[[str], bool]
) -> dict[int, Process]:
    """Return the processes that have the card's device file open, by pid."""
    by_pid: dict[int, list[dict[str, Any]]] = {}
    for client in raw["clients"]:
        if client["pci"] == pci:
            by_pid.setdefault(client["pid"], []).append(client)
    return {pid: _process(pid, clients, counts_region) for pid, clients in by_pid.items()}


def _process(pid: int, clients: list[dict[str, Any]], regions: Callable[[str], bool]) -> Process:
    sizes = [_bytes(t) for c in clients for region, t in c["memory"].items() if regions(region)]
    known = [size for size in sizes if size is not None]
    memory = check_range("gpu_memory_bytes", sum(known), {}) if known else None
    return Process(pid=pid, kind=_kind(clients), gpu_memory_bytes=memory)


def _kind(clients: list[dict[str, Any]]) -> ProcessKind:
    """The kind, by the engines that were used; before the first use it counts as graphics."""
    # Values are like "0 ns": a counter that is not 0 does not start with a 0.
    used = {n for c in clients for n, text in c["engines"].items() if not text.startswith("0")}
    if "compute" not in used:
        return "graphics"
    return "compute+graphics" if "render" in used else "compute"


def _bytes(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _UNITS[match[2]] if match else None


def missing_clients_reason(raw: dict[str, Any]) -> str | None:
    """Return why the list of clients is incomplete; `None` when it is complete."""
    if not raw["listed"]:
        return "no list of processes"
    if raw["refused"]:
        return f"{raw['refused']} processes cannot be read without root"
    return None if raw["whole"] else "too many processes to read all of them"
