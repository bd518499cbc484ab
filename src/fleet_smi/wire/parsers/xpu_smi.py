"""`xpu-smi` (discovery, stats, dump, ps) to GPUs: JSON, CSV and its two-column tables.

Its "UUID" is one of the model, not of the card, so a card is known by its PCI address.
"""

import csv
import re
from collections.abc import Iterator
from typing import Any

from fleet_smi.errors import ReadFailed
from fleet_smi.model.pci import normalize_pci_address
from fleet_smi.model.range_check import check_fields, check_temperature
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.wire.cli_text import (
    excerpt,
    extract_json,
    parse_bytes,
    parse_int,
    parse_number,
    parse_text,
)

_MOST_GPUS = 4096
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_UNIT = re.compile(r"[0-9.]+ (KiB|MiB|GiB)", re.ASCII)
# Every spelling of a figure's name -> ours. "GPU Memory Utilization" is how full it is: no field.
_KEYS = {
    "device name": "name",
    "device_name": "name",
    "pci bdf address": "pci",
    "pci_bdf_address": "pci",
    "memory physical size": "total",
    "core clock rate": "clock_max",
    "pcie generation": "pcie_generation",
    "pcie max link width": "pcie_width_max",
    "gpu utilization (%)": "busy",
    "average % utilization of all gpu engines": "busy",
    "xpum_stats_gpu_utilization": "busy",
    "gpu power (w)": "power",
    "xpum_stats_power": "power",
    "gpu frequency (mhz)": "clock",
    "xpum_stats_gpu_frequency": "clock",
    "gpu core temperature (celsius degree)": "heat",
    "gpu core temperature (c)": "heat",
    "xpum_stats_gpu_core_temperature": "heat",
    "gpu memory temperature (celsius degree)": "memory_heat",
    "gpu memory temperature (c)": "memory_heat",
    "xpum_stats_memory_temperature": "memory_heat",
    "gpu memory used (mib)": "used",
    "xpum_stats_memory_used": "used",
    "gpu memory bandwidth utilization (%)": "memory_busy",
    "gpu memory bandwidth (%)": "memory_busy",
    "mem errors correctable": "corrected",
    "mem errors uncorrectable": "uncorrected",
}

DeviceValues = dict[str, Any]
DeviceValue = tuple[int, str, Any]


def parse(*texts: str) -> tuple[Gpu, ...]:
    """Translate one or more outputs about the same devices, joined by their number."""
    devices: dict[int, DeviceValues] = {}
    processes: dict[int, list[Process]] | None = None
    for text in texts:
        if re.match(r"\s*PID\s+Command\s+DeviceID", text):
            processes = _processes(text)
            for index in processes:
                devices.setdefault(index, {})
            continue
        for index, key, value in _pairs(text):
            if 0 <= index < _MOST_GPUS:
                device = devices.setdefault(index, {})
                name = _KEYS.get(" ".join(key.lower().split()))
                if name is not None and not isinstance(value, (list, dict)):
                    device[name] = value
    if not devices:
        raise ReadFailed(f"xpu-smi printed no device: {excerpt(' '.join(texts[:1]))}")
    return tuple(_gpu(index, device, processes) for index, device in sorted(devices.items()))


def _pairs(text: str) -> Iterator[DeviceValue]:
    """Yield (device, name of the figure, value) of any of the forms."""
    start = text.lstrip()[:64].lower()
    if start.startswith(("timestamp", "device id")):
        return _table(text)
    if start.startswith("+--"):
        return _framed(text)
    return _json(extract_json(text, "xpu-smi"))


def _table(text: str) -> Iterator[DeviceValue]:
    """Yield the cells of a CSV; of several samples the last comes last."""
    try:
        rows = list(csv.reader(text.strip().splitlines(), skipinitialspace=True))
    except csv.Error as exc:
        raise ReadFailed(f"xpu-smi printed a broken table: {exc}") from None
    header = [name.strip() for name in rows[0]]
    at = next((n for n, h in enumerate(header) if h.lower() in ("deviceid", "device id")), None)
    for row in rows[1:]:
        index = parse_int(row[at]) if at is not None and at < len(row) else None
        if index is not None:
            yield from ((index, key, value) for key, value in zip(header, row, strict=False))


def _framed(text: str) -> Iterator[DeviceValue]:
    """Yield the rows of a table drawn with "|": discovery's "Name: value" or stats' two columns."""
    index, name, value = None, "", ""
    for line in text.splitlines():
        left, _, right = (cell.strip() for cell in line.strip().strip("|").partition("|"))
        if left == "Device ID":
            index = parse_int(right)
        elif re.fullmatch(r"[0-9]{1,4}", left, re.ASCII):
            index, left = int(left), ""
        if index is None:
            continue
        if not left:
            name, _, value = right.partition(": ")
        elif right:
            name, value = left, right
        else:  # a name too long for one line goes on in the next
            name = f"{name} {left}"
        yield index, name, value


def _json(document: Any) -> Iterator[DeviceValue]:
    devices = document.get("device_list", [document]) if isinstance(document, dict) else []
    for device in devices if isinstance(devices, list) else []:
        index = parse_int(device.get("device_id")) if isinstance(device, dict) else None
        if index is None:
            continue
        for key, value in device.items():
            yield index, str(key), value
        for item in device["device_level"] if isinstance(device.get("device_level"), list) else []:
            if isinstance(item, dict):
                yield index, str(item.get("metrics_type")), item.get("value")


def _gpu(index: int, device: DeviceValues, processes: dict[int, list[Process]] | None) -> Gpu:
    unread: dict[str, str] = {}
    pci = str(device.get("pci", "")).strip().lower()
    pci = pci if _PCI.fullmatch(pci) else ""
    fields = check_fields(
        {
            "busy_percent": parse_number(device.get("busy")),
            "memory_busy_percent": parse_number(device.get("memory_busy")),
            "memory_used_bytes": parse_bytes(device.get("used"), "MiB"),
            "memory_total_bytes": _sized(device.get("total")) or None,
            "power_watts": parse_number(device.get("power")),
            "sm_clock_mhz": parse_int(device.get("clock")),
            "sm_clock_max_mhz": parse_int(device.get("clock_max")) or None,
            "pcie_generation_max": parse_int(device.get("pcie_generation")) or None,
            "pcie_width_max": parse_int(device.get("pcie_width_max")) or None,
            "memory_temperature_celsius": parse_number(device.get("memory_heat")),
            "ecc_corrected": parse_int(device.get("corrected")),
            "ecc_uncorrected": parse_int(device.get("uncorrected")),
        },
        unread,
    )
    heat = parse_number(device.get("heat"))
    fields["temperature_celsius"] = check_temperature(heat, fields["busy_percent"], unread)
    return Gpu(
        uuid=f"intel-{pci}" if pci else f"intel-gpu{index}",
        uuid_is_made=True,
        index=index,
        vendor="intel",
        name=parse_text(device.get("name")),
        pci_bus_id=normalize_pci_address(pci) if pci else None,
        processes=None if processes is None else tuple(processes.get(index, ())),
        **fields,
        unread=unread,
    )


def _sized(value: Any) -> int | None:
    text = str(value).strip()
    match = _UNIT.fullmatch(text)
    return parse_bytes(text, match[1]) if match else None


def _processes(text: str) -> dict[int, list[Process]]:
    """Return who is on which device; xpu-smi lists itself while it looks."""
    found: dict[int, list[Process]] = {}
    for line in text.strip().splitlines()[1:]:
        cells = line.split()
        if len(cells) < 5:
            continue
        pid, index = parse_int(cells[0]), parse_int(cells[-3])
        if pid is None or not 0 < pid < 1 << 32 or index is None or not 0 <= index < _MOST_GPUS:
            continue
        name = parse_text(" ".join(cells[1:-3]))
        listed = found.setdefault(index, [])
        if name != "xpu-smi":
            memory = check_fields({"gpu_memory_bytes": parse_bytes(cells[-1], "KiB")}, {})[
                "gpu_memory_bytes"
            ]
            listed.append(Process(pid=pid, kind="compute", name=name, gpu_memory_bytes=memory))
    return found
