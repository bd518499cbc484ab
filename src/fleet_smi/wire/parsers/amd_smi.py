"""Parse `amd-smi static`, `metric` and `process` with `--json` into GPUs.

A number is {"value", "unit"}; an unknown number, or a whole unknown object, is "N/A".
"""

import re
from typing import Any

from fleet_smi.errors import ReadFailed
from fleet_smi.model.pci import first_unused_id, normalize_pci_address
from fleet_smi.model.range_check import check_fields, check_temperature, first_known
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.wire.program_output import (
    extract_json,
    no_device_error,
    parse_bytes,
    parse_int,
    parse_number,
    parse_text,
)

_MAX_GPUS = 4096
# Transfer rate of a lane in GT/s -> PCIe generation.
_GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_LISTS = ("gpu_data", "gpus")

GpuEntry = dict[str, Any]


def parse(*texts: str) -> tuple[Gpu, ...]:
    """Return the GPUs of several outputs, merged by GPU number.

    An output that is no JSON (a subcommand that failed) is skipped; raise `ReadFailed` or
    `NotPresent` when none of them has a GPU.
    """
    entries: dict[int, GpuEntry] = {}
    errors: list[ReadFailed] = []
    for text in texts:
        try:
            document = extract_json(text, "amd-smi")
        except ReadFailed as error:
            errors.append(error)
            continue
        for entry in _entries(document):
            index = parse_int(entry.get("gpu"))
            if index is not None and 0 <= index < _MAX_GPUS:
                _merge(entries.setdefault(index, {}), entry)
    if not entries:
        no_gpu = ReadFailed("amd-smi's JSON has no GPU in it")
        raise no_device_error("amd-smi", texts) or (errors[0] if errors else no_gpu)
    taken: set[str] = set()
    return tuple(_gpu(index, entry, taken) for index, entry in sorted(entries.items()))


def _merge(merged: GpuEntry, entry: GpuEntry) -> None:
    for key, value in entry.items():
        # "clock" and others are in two documents, with different figures in them.
        both = isinstance(merged.get(key), dict) and isinstance(value, dict)
        merged[key] = {**merged[key], **value} if both else value


def _entries(document: Any) -> list[GpuEntry]:
    """Return one entry per GPU: a list up to ROCm 6, below "gpu_data" since ROCm 7."""
    if isinstance(document, dict):
        document = next((document[name] for name in _LISTS if name in document), [document])
    entries = document if isinstance(document, list) else []
    return [entry for entry in entries if isinstance(entry, dict)]


def _at(entry: Any, *path: str) -> Any:
    """Return the value at the path, `None` when a level of it is missing or "N/A"."""
    value = entry
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


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
    for address in (entry.get("bdf"), _at(entry, "bus", "bdf")):
        if isinstance(address, str) and _PCI.fullmatch(address.lower()):
            return address.lower()
    return None


def _unique_id(entry: GpuEntry) -> str | None:
    """Return the id under which the kernel driver and rocm-smi list the same card."""
    serial = _at(entry, "asic", "asic_serial")
    match = re.fullmatch(r"0x([0-9a-f]{1,16})", str(serial).lower(), re.ASCII)
    return f"GPU-{int(match[1], 16):016x}" if match and int(match[1], 16) else None


def _figures(entry: GpuEntry, unread: dict[str, str]) -> dict[str, Any]:
    # A limit or total of 0 means that it is not known: hence `or None`.
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
                entry.get("power"), "socket_power", "current_socket_power", "average_socket_power"
            ),
            "power_limit_watts": _power_limit(entry.get("limit")) or None,
            "sm_clock_mhz": parse_int(_at(entry, "clock", "gfx_0", "clk")),
            "sm_clock_max_mhz": parse_int(_at(entry, "clock", "gfx_0", "max_clk")) or None,
            "memory_clock_mhz": parse_int(_at(entry, "clock", "mem_0", "clk")),
            "memory_clock_max_mhz": parse_int(_at(entry, "clock", "mem_0", "max_clk")) or None,
            "ecc_corrected": parse_int(_at(entry, "ecc", "total_correctable_count")),
            "ecc_uncorrected": parse_int(_at(entry, "ecc", "total_uncorrectable_count")),
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
    number: float | None = first_known(*(parse_number(_at(values, key)) for key in keys))
    return number


def _power_limit(limit: Any) -> float | None:
    """Return the limit in force; the highest one that can be set only where that is not given."""
    # Since ROCm 7 (MI350 and later first) each power cap has an object of its own: ppt0 is the
    # cap of the whole socket, ppt1 a faster-acting one beside it.
    by_cap = _first_number(_at(limit, "ppt0"), "socket_power_limit")
    if by_cap is not None:
        return by_cap
    flat = _first_number(limit, "socket_power", "socket_power_limit", "power_limit", "max_power")
    return flat if flat is not None else _first_number(_at(limit, "ppt0"), "max_power_limit")


def _fan_percent(fan: Any) -> float | None:
    usage = _first_number(fan, "usage")
    speed, maximum = _first_number(fan, "speed"), _first_number(fan, "max")
    if usage is not None or speed is None:
        return usage
    # The speed is a duty cycle of 0 to 255.
    return speed / (maximum or 255) * 100


def _link(entry: GpuEntry) -> dict[str, int | None]:
    speed = parse_number(_at(entry, "pcie", "speed"))
    max_speed = parse_number(_at(entry, "bus", "max_pcie_speed"))
    return {
        "pcie_generation": _GENERATIONS.get(speed or 0),
        "pcie_generation_max": _GENERATIONS.get(max_speed or 0),
        "pcie_width": parse_int(_at(entry, "pcie", "width")) or None,
        "pcie_width_max": parse_int(_at(entry, "bus", "max_pcie_width")) or None,
    }


def _processes(listed: Any) -> tuple[Process, ...] | None:
    if not isinstance(listed, list):
        return None
    # Without processes, the text "No running processes detected" is where an object would be.
    processes = (_process(_at(item, "process_info")) for item in listed)
    return tuple(process for process in processes if process is not None)


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
