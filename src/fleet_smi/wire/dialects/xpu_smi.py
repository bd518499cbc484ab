"""`xpu-smi` (discovery, stats, dump, ps) to GPUs: JSON, CSV and its two-column tables.

Its "UUID" is one of the model, not of the card, so a card is known by its PCI address.
"""

import csv
import re
from collections.abc import Iterator
from typing import Any

from fleet_smi.errors import ReadFailed
from fleet_smi.model.pci import normal_pci
from fleet_smi.model.plausible import checked, plausible_temperature
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.wire.printed import excerpt, json_in, number, size, whole, words

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
    "gpu memory used (mib)": "used",
    "xpum_stats_memory_used": "used",
    "gpu memory bandwidth utilization (%)": "memory_busy",
    "gpu memory bandwidth (%)": "memory_busy",
    "mem errors correctable": "corrected",
    "mem errors uncorrectable": "uncorrected",
}

Device = dict[str, Any]
Pair = tuple[int, str, Any]


def parse(*texts: str) -> tuple[Gpu, ...]:
    """Translate one or more outputs about the same devices, joined by their number."""
    devices: dict[int, Device] = {}
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


def _pairs(text: str) -> Iterator[Pair]:
    """Yield (device, name of the figure, value) of any of the forms."""
    start = text.lstrip()[:64].lower()
    if start.startswith(("timestamp", "device id")):
        return _table(text)
    if start.startswith("+--"):
        return _framed(text)
    return _json(json_in(text, "xpu-smi"))


def _table(text: str) -> Iterator[Pair]:
    """Yield the cells of a CSV; of several samples the last comes last."""
    try:
        rows = list(csv.reader(text.strip().splitlines(), skipinitialspace=True))
    except csv.Error as exc:
        raise ReadFailed(f"xpu-smi printed a broken table: {exc}") from None
    header = [name.strip() for name in rows[0]]
    at = next((n for n, h in enumerate(header) if h.lower() in ("deviceid", "device id")), None)
    for row in rows[1:]:
        index = whole(row[at]) if at is not None and at < len(row) else None
        if index is not None:
            yield from ((index, key, value) for key, value in zip(header, row, strict=False))


def _framed(text: str) -> Iterator[Pair]:
    """Yield the rows of a table drawn with "|": discovery's "Name: value" or stats' two columns."""
    index, name, value = None, "", ""
    for line in text.splitlines():
        left, _, right = (cell.strip() for cell in line.strip().strip("|").partition("|"))
        if left == "Device ID":
            index = whole(right)
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


def _json(document: Any) -> Iterator[Pair]:
    devices = document.get("device_list", [document]) if isinstance(document, dict) else []
    for device in devices if isinstance(devices, list) else []:
        index = whole(device.get("device_id")) if isinstance(device, dict) else None
        if index is None:
            continue
        for key, value in device.items():
            yield index, str(key), value
        for item in device["device_level"] if isinstance(device.get("device_level"), list) else []:
            if isinstance(item, dict):
                yield index, str(item.get("metrics_type")), item.get("value")


def _gpu(index: int, device: Device, processes: dict[int, list[Process]] | None) -> Gpu:
    unread: dict[str, str] = {}
    pci = str(device.get("pci", "")).strip().lower()
    pci = pci if _PCI.fullmatch(pci) else ""
    fields = checked(
        {
            "busy_percent": number(device.get("busy")),
            "memory_busy_percent": number(device.get("memory_busy")),
            "memory_used_bytes": size(device.get("used"), "MiB"),
            "memory_total_bytes": _sized(device.get("total")) or None,
            "power_watts": number(device.get("power")),
            "sm_clock_mhz": whole(device.get("clock")),
            "sm_clock_max_mhz": whole(device.get("clock_max")) or None,
            "pcie_generation_max": whole(device.get("pcie_generation")) or None,
            "pcie_width_max": whole(device.get("pcie_width_max")) or None,
            "ecc_corrected": whole(device.get("corrected")),
            "ecc_uncorrected": whole(device.get("uncorrected")),
        },
        unread,
    )
    heat = number(device.get("heat"))
    fields["temperature_celsius"] = plausible_temperature(heat, fields["busy_percent"], unread)
    return Gpu(
        uuid=f"intel-{pci}" if pci else f"intel-gpu{index}",
        uuid_is_made=True,
        index=index,
        vendor="intel",
        name=words(device.get("name")),
        pci_bus_id=normal_pci(pci) if pci else None,
        processes=None if processes is None else tuple(processes.get(index, ())),
        **fields,
        unread=unread,
    )


def _sized(value: Any) -> int | None:
    text = str(value).strip()
    match = _UNIT.fullmatch(text)
    return size(text, match[1]) if match else None


def _processes(text: str) -> dict[int, list[Process]]:
    """Return who is on which device; xpu-smi lists itself while it looks."""
    found: dict[int, list[Process]] = {}
    for line in text.strip().splitlines()[1:]:
        cells = line.split()
        if len(cells) < 5:
            continue
        pid, index = whole(cells[0]), whole(cells[-3])
        if pid is None or not 0 < pid < 1 << 32 or index is None or not 0 <= index < _MOST_GPUS:
            continue
        name = words(" ".join(cells[1:-3]))
        listed = found.setdefault(index, [])
        if name != "xpu-smi":
            memory = checked({"gpu_memory_bytes": size(cells[-1], "KiB")}, {})["gpu_memory_bytes"]
            listed.append(Process(pid=pid, kind="compute", name=name, gpu_memory_bytes=memory))
    return found
