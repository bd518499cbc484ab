"""What AMD's and Intel's collectors share: figures and clients as DRM drivers write them; pure."""

import re
from collections.abc import Callable, Iterable
from typing import Any

from fleet_smi.model.pci import normalize_pci_address
from fleet_smi.model.range_check import check_range
from fleet_smi.model.snapshot import Fault, Process, ProcessKind

_WHOLE = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) ?GT/s", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,20})(?: (KiB|MiB|GiB))?", re.ASCII)
_UNITS = {None: 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_ANSWERS = {
    "EACCES": "not permitted",
    "EPERM": "not permitted",
    "EBUSY": "the device is busy",
    "EOPNOTSUPP": "not supported by this device",
}
# What a driver answers for a device that no longer does.
_DEAD = frozenset({"EIO", "ENXIO", "ENODEV", "ETIME", "ETIMEDOUT"})

GpuFields = dict[str, Any]


def parse_int(text: str | None) -> int | None:
    """Return the integer that `text` is, if it is nothing else."""
    return int(text) if text is not None and _WHOLE.fullmatch(text.strip()) else None


def parse_scaled(text: str | None, divisor: int) -> float | None:
    """Return an integer of a small unit in a `by` times bigger one."""
    value = parse_int(text)
    return None if value is None else value / divisor


def parse_scaled_int(text: str | None, divisor: int) -> int | None:
    """Return the same, as an integer."""
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
    for number in range(1, 17):
        name = f"{kind}{number}_{suffix}"
        if hwmon.get(f"{kind}{number}_label") == label and name in hwmon:
            return name
    return None


def pcie_link_fields(link: dict[str, str]) -> dict[str, int | None]:
    """Return the PCIe fields of a `Gpu`."""
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
    # 0 is written for a GPU that is not on a link, all bits (63) for one that is gone.
    width = parse_int(text)
    return width if width is not None and 0 < width <= 32 else None


def detect_fault(card: dict[str, Any], values: Iterable[Any]) -> Fault | None:
    """Say why a card cannot be read, if it is clear that it cannot."""
    link = card["link"]
    if link.get("current_link_width") == "63" and not _generation(link.get("current_link_speed")):
        return Fault(kind="lost", detail="its PCIe link reads as all ones: off the bus")
    dead = sorted(f"{name}: {error}" for name, error in card["refused"].items() if error in _DEAD)
    if dead and all(figure is None for figure in values):
        return Fault(kind="unreadable", detail=f"the driver cannot read the device ({dead[0]})")
    return None


def explain_read_errors(
    card: dict[str, Any], fields: GpuFields, sources: dict[str, str], unread: dict[str, str]
) -> None:
    """Say why a field is not known where the driver refused the file that it comes from."""
    for name, field in sources.items():
        error = card["refused"].get(name)
        if error is not None and fields.get(field) is None:
            unread.setdefault(field, _ANSWERS.get(error, f"the driver answered {error}"))


def pci_bus_id(card: dict[str, Any]) -> str | None:
    """Return the card's address in the model's spelling."""
    return normalize_pci_address(card["pci"]) if card["pci"] else None


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
    """Tell by the engines that were used; one that used none yet counts as drawing."""
    used = {n for c in clients for n, text in c["engines"].items() if not text.startswith("0")}
    if "compute" not in used:
        return "graphics"
    return "compute+graphics" if "render" in used else "compute"


def _bytes(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    return int(match[1]) * _UNITS[match[2]] if match else None


def missing_clients_reason(raw: dict[str, Any]) -> str | None:
    """Say why the list of clients is not all of them, `None` when it is."""
    if not raw["listed"]:
        return "no list of processes"
    if raw["refused"]:
        return f"{raw['refused']} processes may not be looked at"
    return None if raw["whole"] else "too many processes to look at all of them"
