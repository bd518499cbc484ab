"""Parse the CSV of `xpu-smi discovery --dump` and `dump`, and the table of `ps`, into GPUs.

Its "UUID" identifies a model, not a card: a card is identified by its PCI address.
"""

import csv
import re
from collections.abc import Iterable

from fleet_smi.errors import ReadFailed
from fleet_smi.model.pci import normalize_pci_address
from fleet_smi.model.range_check import check_fields, check_temperature
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.wire.program_output import (
    excerpt,
    no_device_error,
    parse_bytes,
    parse_int,
    parse_number,
    parse_text,
)

_MAX_GPUS = 4096
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_UNIT = re.compile(r"[0-9.]+ (KiB|MiB|GiB)", re.ASCII)
_MAX_LINES = 65_536
_CSV_HEADER = re.compile(r"(?:timestamp|device id),", re.IGNORECASE)
_PS_HEADER = re.compile(r"PID\s+Command\s+DeviceID")
# Column name of any release -> ours. "GPU Memory Utilization" is how full memory is: no field.
_KEYS = {
    "device name": "name",
    "pci bdf address": "pci",
    "memory physical size": "total",
    "core clock rate": "clock_max",
    "pcie generation": "pcie_generation",
    "pcie max link width": "pcie_width_max",
    "gpu utilization (%)": "busy",
    "average % utilization of all gpu engines": "busy",
    "gpu power (w)": "power",
    "gpu frequency (mhz)": "clock",
    "gpu core temperature (celsius degree)": "heat",
    "gpu memory temperature (celsius degree)": "memory_heat",
    "gpu memory used (mib)": "used",
    "gpu memory bandwidth utilization (%)": "memory_busy",
}

DeviceValues = dict[str, str]


def parse(*texts: str) -> tuple[Gpu, ...]:
    """Return the GPUs of several outputs, merged by device number.

    An output that is no table (a subcommand that failed) is skipped; raise `ReadFailed` or
    `NotPresent` when none of them has a device.
    """
    devices: dict[int, DeviceValues] = {}
    processes: dict[int, list[Process]] | None = None
    for text in texts:
        lines = [line.strip() for line in text.splitlines()[:_MAX_LINES]]
        # Warnings of the driver library may come first.
        for number, line in enumerate(lines):
            if _CSV_HEADER.match(line):
                _read_csv(lines[number:], devices)
                break
            if _PS_HEADER.match(line):
                processes = _processes(lines[number + 1 :])
                for index in processes:
                    devices.setdefault(index, {})
                break
    if not devices:
        no_table = ReadFailed(f"xpu-smi printed no device: {excerpt(' '.join(texts[:1]))}")
        raise no_device_error("xpu-smi", texts) or no_table
    return tuple(_gpu(index, device, processes) for index, device in sorted(devices.items()))


def _read_csv(lines: list[str], devices: dict[int, DeviceValues]) -> None:
    """Add the cells of a CSV to their devices; of several samples the last one counts."""
    try:
        header, *rows = csv.reader(lines, skipinitialspace=True)
    except csv.Error as exc:
        raise ReadFailed(f"xpu-smi printed a broken table: {exc}") from None
    names = [" ".join(name.lower().split()) for name in header]
    column = next((n for n, name in enumerate(names) if name in ("deviceid", "device id")), None)
    for row in rows:
        index = parse_int(row[column]) if column is not None and column < len(row) else None
        if index is not None and 0 <= index < _MAX_GPUS:
            device = devices.setdefault(index, {})
            device.update(
                (_KEYS[name], cell) for name, cell in zip(names, row, strict=False) if name in _KEYS
            )


def _gpu(index: int, device: DeviceValues, processes: dict[int, list[Process]] | None) -> Gpu:
    unread: dict[str, str] = {}
    pci = device.get("pci", "").strip().lower()
    pci = pci if _PCI.fullmatch(pci) else ""
    fields = check_fields(
        {
            "busy_percent": parse_number(device.get("busy")),
            "memory_busy_percent": parse_number(device.get("memory_busy")),
            "memory_used_bytes": parse_bytes(device.get("used"), "MiB"),
            "memory_total_bytes": _size(device.get("total", "")) or None,
            "power_watts": parse_number(device.get("power")),
            "sm_clock_mhz": parse_int(device.get("clock")),
            "sm_clock_max_mhz": parse_int(device.get("clock_max")) or None,
            "pcie_generation_max": parse_int(device.get("pcie_generation")) or None,
            "pcie_width_max": parse_int(device.get("pcie_width_max")) or None,
            "memory_temperature_celsius": parse_number(device.get("memory_heat")),
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


def _size(text: str) -> int | None:
    match = _UNIT.fullmatch(text.strip())
    return parse_bytes(text, match[1]) if match else None


def _processes(lines: Iterable[str]) -> dict[int, list[Process]]:
    """Return the processes by device number, without xpu-smi itself, which lists itself."""
    by_device: dict[int, list[Process]] = {}
    for line in lines:
        cells = line.split()
        if len(cells) < 5:
            continue
        # Counted from the end: the command may hold blanks.
        pid, index = parse_int(cells[0]), parse_int(cells[-3])
        if pid is None or not 0 < pid < 1 << 32 or index is None or not 0 <= index < _MAX_GPUS:
            continue
        name = parse_text(" ".join(cells[1:-3]))
        # Before xpu-smi is skipped: its own row shows that the device exists.
        listed = by_device.setdefault(index, [])
        if name != "xpu-smi":
            memory = check_fields({"gpu_memory_bytes": parse_bytes(cells[-1], "KiB")}, {})[
                "gpu_memory_bytes"
            ]
            listed.append(Process(pid=pid, kind="compute", name=name, gpu_memory_bytes=memory))
    return by_device
