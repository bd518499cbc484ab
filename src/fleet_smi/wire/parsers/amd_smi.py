"""`amd-smi … --json` (list, static, metric, process) and `amd-smi monitor --csv` to GPUs.

A number is {"value", "unit"}; what is unknown is the string "N/A", be it a number or a
whole object.
"""

import csv
import re
from typing import Any

from fleet_smi.errors import ReadFailed
from fleet_smi.model.pci import first_unused_id, normalize_pci_address
from fleet_smi.model.range_check import check_fields, check_temperature, first_known
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
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_LISTS = ("gpu_data", "gpus")

GpuEntry = dict[str, Any]


def parse(*texts: str) -> tuple[Gpu, ...]:
    """Translate one or more JSON documents about the same GPUs, joined by their number."""
    entries: dict[int, GpuEntry] = {}
    for text in texts:
        for entry in _entries(extract_json(text, "amd-smi")):
            index = parse_int(entry.get("gpu"))
            if index is not None and 0 <= index < _MOST_GPUS:
                _join(entries.setdefault(index, {}), entry)
    if not entries:
        raise ReadFailed("amd-smi's JSON has no GPU in it")
    taken: set[str] = set()
    return tuple(_gpu(index, entry, taken) for index, entry in sorted(entries.items()))


def _join(known: GpuEntry, entry: GpuEntry) -> None:
    for key, value in entry.items():
        # "clock" and others stand in two documents with different figures in them.
        both = isinstance(known.get(key), dict) and isinstance(value, dict)
        known[key] = {**known[key], **value} if both else value


def _entries(document: Any) -> list[GpuEntry]:
    """Return the entries: a list up to ROCm 6, below "gpu_data" from ROCm 7."""
    if isinstance(document, dict):
        document = next((document[name] for name in _LISTS if name in document), [document])
    entries = document if isinstance(document, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _at(entry: GpuEntry, *path: str) -> Any:
    """Return what is at the path, `None` when a level of it is missing or "N/A"."""
    found: Any = entry
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _gpu(index: int, entry: GpuEntry, taken: set[str]) -> Gpu:
    unread: dict[str, str] = {}
    pci = _address(entry)
    uuid = first_unused_id((_unique_id(entry), pci and f"amd-{pci}", f"amd-gpu{index}"), taken)
    return Gpu(
        uuid=uuid,
        uuid_is_made=not uuid.startswith("GPU-"),
        index=index,
        vendor="amd",
        name=first_known(
            parse_text(_at(entry, "asic", "market_name")),
            parse_text(_at(entry, "board", "product_name")),
        ),
        pci_bus_id=normalize_pci_address(pci) if pci else None,
        performance_state=parse_text(entry.get("perf_level"), 32),
        processes=_processes(entry.get("process_list")),
        **_figures(entry, unread),
        unread=unread,
    )


def _address(entry: GpuEntry) -> str | None:
    for found in (entry.get("bdf"), _at(entry, "bus", "bdf")):
        if isinstance(found, str) and _PCI.fullmatch(found.lower()):
            return found.lower()
    return None


def _unique_id(entry: GpuEntry) -> str | None:
    """Return the id that the driver and rocm-smi know the card by too."""
    serial = _at(entry, "asic", "asic_serial")
    match = re.fullmatch(r"0x([0-9a-f]{1,16})", str(serial).lower(), re.ASCII)
    return f"GPU-{int(match[1], 16):016x}" if match and int(match[1], 16) else None


def _figures(entry: GpuEntry, unread: dict[str, str]) -> dict[str, Any]:
    power, clock, ecc = (entry.get(name) for name in ("power", "clock", "ecc"))
    fields = check_fields(
        {
            "busy_percent": parse_number(_at(entry, "usage", "gfx_activity")),
            "memory_busy_percent": parse_number(_at(entry, "usage", "umc_activity")),
            "memory_used_bytes": parse_bytes(_at(entry, "mem_usage", "used_vram")),
            "memory_total_bytes": first_known(
                parse_bytes(_at(entry, "mem_usage", "total_vram")),
                parse_bytes(_at(entry, "vram", "size")),
            )
            or None,
            "fan_percent": _fan_percent(entry.get("fan")),
            "power_watts": _first_number(
                power, "socket_power", "current_socket_power", "average_socket_power"
            ),
            "power_limit_watts": _first_number(
                entry.get("limit"), "socket_power", "power_limit", "max_power"
            )
            or None,
            "sm_clock_mhz": parse_int(_at({"clock": clock}, "clock", "gfx_0", "clk")),
            "sm_clock_max_mhz": parse_int(_at({"clock": clock}, "clock", "gfx_0", "max_clk"))
            or None,
            "memory_clock_mhz": parse_int(_at({"clock": clock}, "clock", "mem_0", "clk")),
            "memory_clock_max_mhz": parse_int(_at({"clock": clock}, "clock", "mem_0", "max_clk"))
            or None,
            "ecc_corrected": parse_int(_at({"ecc": ecc}, "ecc", "total_correctable_count")),
            "ecc_uncorrected": parse_int(_at({"ecc": ecc}, "ecc", "total_uncorrectable_count")),
            "memory_temperature_celsius": _first_number(entry.get("temperature"), "mem"),
            "energy_joules": _first_number(entry.get("energy"), "total_energy_consumption"),
            **_link(entry),
        },
        unread,
    )
    heat = _first_number(entry.get("temperature"), "edge", "hotspot")
    fields["temperature_celsius"] = check_temperature(heat, fields["busy_percent"], unread)
    return fields


def _first_number(values: Any, *keys: str) -> float | None:
    found: float | None = first_known(*(parse_number(_at({"": values}, "", key)) for key in keys))
    return found


def _fan_percent(fan: Any) -> float | None:
    usage = _first_number(fan, "usage")
    speed, most = _first_number(fan, "speed"), _first_number(fan, "max")
    if usage is not None or speed is None:
        return usage
    # The speed is a duty of 0 to 255.
    return speed / (most or 255) * 100


def _link(entry: GpuEntry) -> dict[str, int | None]:
    speed = parse_number(_at(entry, "pcie", "speed"))
    most = parse_number(_at(entry, "bus", "max_pcie_speed"))
    return {
        "pcie_generation": _GENERATIONS.get(speed or 0),
        "pcie_generation_max": _GENERATIONS.get(most or 0),
        "pcie_width": parse_int(_at(entry, "pcie", "width")) or None,
        "pcie_width_max": parse_int(_at(entry, "bus", "max_pcie_width")) or None,
    }


def _processes(listed: Any) -> tuple[Process, ...] | None:
    if not isinstance(listed, list):
        return None
    # "No running processes detected" stands where an object would.
    found = (_process(_at({"": item}, "", "process_info")) for item in listed)
    return tuple(process for process in found if process is not None)


def _process(info: Any) -> Process | None:
    pid = parse_int(info.get("pid")) if isinstance(info, dict) else None
    if pid is None or not 0 < pid < 1 << 32:
        return None
    memory = first_known(
        parse_bytes(_at(info, "memory_usage", "vram_mem")), parse_bytes(info.get("mem_usage"))
    )
    return Process(
        pid=pid,
        kind="compute",
        name=parse_text(info.get("name")),
        gpu_memory_bytes=check_fields({"gpu_memory_bytes": memory}, {})["gpu_memory_bytes"],
    )


def parse_monitor(text: str) -> tuple[Gpu, ...]:
    """Translate `amd-smi monitor --csv`, whose columns differ between releases, by header."""
    rows: dict[int, dict[str, str]] = {}
    lines = [line for line in text.splitlines() if "," in line]
    header = next((n for n, line in enumerate(lines) if "gpu" in line.lower().split(",")), None)
    if header is None:
        raise ReadFailed(f"amd-smi printed no table of GPUs: {excerpt(text)}")
    names = [name.strip().lower() for name in lines[header].split(",")]
    try:
        for cells in csv.reader(lines[header + 1 :]):
            row = dict(zip(names, cells, strict=False))
            index = parse_int(row.get("gpu"))
            if index is not None and 0 <= index < _MOST_GPUS:
                rows[index] = row  # when it is repeated, the last is the newest
    except csv.Error as exc:
        raise ReadFailed(f"amd-smi printed a broken table: {exc}") from None
    if not rows:
        raise ReadFailed("amd-smi's table has no GPU in it")
    return tuple(_monitored(index, row) for index, row in sorted(rows.items()))


def _monitored(index: int, row: dict[str, str]) -> Gpu:
    unread: dict[str, str] = {}

    def cell(*names: str) -> float | None:
        value: float | None = first_known(*(parse_number(row.get(name)) for name in names))
        return value

    fields = check_fields(
        {
            "busy_percent": cell("gfx", "gfx_util", "gfx_activity"),
            "memory_busy_percent": cell("mem", "mem_util", "umc_activity"),
            "memory_used_bytes": parse_bytes(row.get("vram_used"), "MiB"),
            "memory_total_bytes": parse_bytes(row.get("vram_total"), "MiB") or None,
            "encoder_percent": cell("enc", "encoder", "enc_util"),
            "decoder_percent": cell("dec", "decoder", "dec_util"),
            "power_watts": cell("power_usage", "power"),
            "memory_temperature_celsius": cell("memory_temperature", "mem_t"),
            "sm_clock_mhz": parse_int(cell("gfx_clk", "gfx_clock")),
            "memory_clock_mhz": parse_int(cell("mem_clock", "mem_clk")),
            "ecc_corrected": parse_int(cell("single_bit_ecc", "single_ecc")),
            "ecc_uncorrected": parse_int(cell("double_bit_ecc", "double_ecc")),
        },
        unread,
    )
    heat = cell("gpu_temperature", "gpu_t", "hotspot_temperature")
    fields["temperature_celsius"] = check_temperature(heat, fields["busy_percent"], unread)
    return Gpu(
        uuid=f"amd-gpu{index}",
        uuid_is_made=True,
        index=index,
        vendor="amd",
        **fields,
        unread=unread,
    )
