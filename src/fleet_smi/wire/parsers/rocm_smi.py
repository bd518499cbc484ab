"""Parse `rocm-smi --json` of every ROCm release, and of Hygon's fork, into GPUs.

All values are strings. The spelling of keys changed between releases: they are compared in
lower case, without a colon at the end.
"""

import re
from typing import Any

from fleet_smi.errors import ReadFailed
from fleet_smi.model.pci import first_unused_id, normalize_pci_address
from fleet_smi.model.pci_names import is_integrated_gpu, pci_name
from fleet_smi.model.range_check import check_fields, check_temperature, first_known
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Fault, Gpu, Process
from fleet_smi.wire.program_output import (
    extract_json,
    no_device_error,
    parse_bytes,
    parse_int,
    parse_number,
    parse_text,
)

_CARD = re.compile(r"card([0-9]{1,5})", re.ASCII)
_PID = re.compile(r"pid ?([0-9]{1,9})", re.ASCII)
_HEX = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.ASCII)
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_LINK = re.compile(r"([0-9.]{1,6})GT/s x([0-9]{1,2})", re.ASCII)
_IN_BRACKETS = re.compile(r"\(([0-9]{1,6}Mhz)\)", re.ASCII | re.IGNORECASE)
_RANGE = re.compile(r"- ([0-9]{1,6}Mhz)", re.ASCII | re.IGNORECASE)
# Transfer rate of a lane in GT/s -> PCIe generation.
_GENERATIONS = {"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}
# One line per figure that a hung GPU does not give, mixed into the output.
_HUNG = re.compile(r"ERROR: [0-9]+ GPU\[([0-9]{1,5})\] ?:([^\n]{0,300})", re.ASCII)
_PLACEHOLDERS = frozenset({"generic rm image"})

CardFields = dict[str, str]


def parse(text: str) -> tuple[Gpu, ...]:
    """Return the GPUs; raise `ReadFailed` for other text, `NotPresent` when there is no GPU."""
    hung = {
        int(n): sanitize_text(detail, 200).strip() for n, detail in _HUNG.findall(text[: 1 << 20])
    }
    try:
        document = extract_json(text, "rocm-smi")
    except ReadFailed:
        if hung:
            index, detail = min(hung.items())
            raise ReadFailed(f"rocm-smi cannot read GPU {index}: {detail}") from None
        if absent := no_device_error("rocm-smi", [text]):
            raise absent from None
        raise
    cards = _cards(document)
    if not cards:
        raise no_device_error("rocm-smi", [text]) or ReadFailed("rocm-smi's JSON has no card in it")
    taken: set[str] = set()
    listed = _listed(document.get("system"))
    processes = None if listed is None else _processes(listed, len(cards))
    return tuple(
        _gpu(index, card, processes, listed is not None, hung.get(index), taken)
        for index, card in sorted(cards.items())
    )


def _cards(document: Any) -> dict[int, CardFields]:
    if not isinstance(document, dict):
        return {}
    cards = {}
    for name, card in document.items():
        match = _CARD.fullmatch(name)
        if match and isinstance(card, dict):
            cards[int(match[1])] = _strings(card)
    return cards


def _strings(values: dict[Any, Any]) -> dict[str, str]:
    pairs = ((str(key).strip().rstrip(":").lower(), value) for key, value in values.items())
    return {key: value.strip() for key, value in pairs if isinstance(value, str)}


def _gpu(
    index: int,
    card: CardFields,
    processes: tuple[Process, ...] | None,
    requested: bool,
    hung: str | None,
    taken: set[str],
) -> Gpu:
    unread: dict[str, str] = {}
    pci = card.get("pci bus", "").lower()
    pci = pci if _PCI.fullmatch(pci) else ""
    shared = _lives_in_host_memory(card)
    if processes is None and requested:
        unread["processes"] = "rocm-smi does not say which GPU each process is on"
    by_address = f"amd-{pci}" if pci else None
    uuid = first_unused_id((_unique_id(card), by_address, f"amd-card{index}"), taken)
    return Gpu(
        uuid=uuid,
        uuid_is_made=not uuid.startswith("GPU-"),
        index=index,
        vendor="amd",
        name=_name(card),
        pci_bus_id=normalize_pci_address(pci) if pci else None,
        memory_shared=shared,
        performance_state=parse_text(card.get("performance level"), 32),
        processes=processes,
        fault=Fault(kind="unreadable", detail=hung) if hung is not None else None,
        **_figures(card, shared, unread),
        unread=unread,
    )


def _unique_id(card: CardFields) -> str | None:
    match = _HEX.fullmatch(card.get("unique id", "").lower())
    return f"GPU-{int(match[1], 16):016x}" if match and int(match[1], 16) else None


def _pci_id(card: CardFields) -> str | None:
    match = _HEX.fullmatch((card.get("device id") or card.get("gpu id", "")).lower())
    return f"1002:{match[1]:0>4}" if match else None


def _name(card: CardFields) -> str | None:
    # Some releases print a number or a placeholder where the name should be.
    for key in ("card series", "device name"):
        name = parse_text(card.get(key))
        if name and not _HEX.fullmatch(name.lower()) and name.lower() not in _PLACEHOLDERS:
            return name
    pci_id = _pci_id(card)
    return pci_id and (pci_name(pci_id) or f"AMD GPU [{pci_id}]")


def _figures(card: CardFields, shared: bool, unread: dict[str, str]) -> dict[str, Any]:
    generation, width = _link(card.get("pcie clock level"))
    fields = check_fields(
        {
            "busy_percent": _number(card, "gpu use (%)", "dcu use (%)"),
            # Until ROCm 6.1 "memory use" meant how busy memory is. The newer "allocated" means
            # how full it is, which is no busy figure.
            "memory_busy_percent": _number(
                card, "gpu memory read/write activity (%)", "gpu memory use (%)"
            ),
            "memory_used_bytes": _memory(card, "total used memory", shared),
            "memory_total_bytes": _memory(card, "total memory", shared) or None,
            "fan_percent": _number(card, "fan speed (%)"),
            "power_watts": _number(
                card,
                "average graphics package power (w)",
                "current socket graphics package power (w)",
            ),
            "power_limit_watts": _number(card, "max graphics package power (w)") or None,
            "sm_clock_mhz": _clock(card, "sclk"),
            "sm_clock_max_mhz": _range_maximum(card.get("valid sclk range")),
            "memory_clock_mhz": _clock(card, "mclk"),
            "memory_clock_max_mhz": _range_maximum(card.get("valid mclk range")),
            "memory_temperature_celsius": _number(
                card, "temperature (sensor memory) (c)", "temperature (sensor mem) (c)"
            ),
            "energy_joules": _joules(card),
            "pcie_generation": generation,
            "pcie_width": width,
        },
        unread,
    )
    heat = _number(card, *(f"temperature (sensor {at}) (c)" for at in ("edge", "junction")))
    fields["temperature_celsius"] = check_temperature(heat, fields["busy_percent"], unread)
    return fields


def _number(card: CardFields, *keys: str) -> float | None:
    value: float | None = first_known(*(parse_number(card.get(key)) for key in keys))
    return value


def _joules(card: CardFields) -> float | None:
    microjoules = _number(card, "accumulated energy (uj)")
    return None if microjoules is None else microjoules / 1e6


def _memory(card: CardFields, what: str, shared: bool) -> int | None:
    vram = _pool(card, f"vram {what}")
    if not shared:
        return vram
    gtt = _pool(card, f"gtt {what}")
    return None if vram is None or gtt is None else vram + gtt


def _pool(card: CardFields, key: str) -> int | None:
    # Hygon's fork counts in MiB.
    size: int | None = first_known(
        *(parse_bytes(card.get(f"{key} ({unit})".lower()), unit) for unit in ("B", "MiB"))
    )
    return size


def _lives_in_host_memory(card: CardFields) -> bool:
    """Return whether "VRAM" is a carve-out of the host's memory, beside a larger GTT."""
    vram, gtt = _pool(card, "vram total memory"), _pool(card, "gtt total memory")
    if not vram or not gtt:
        return False
    # No card that ROCm runs on has less than 1 GiB.
    return is_integrated_gpu(_pci_id(card) or "") or (vram < 1 << 30 < gtt)


def _clock(card: CardFields, clock: str) -> int | None:
    level = _IN_BRACKETS.search(card.get(f"{clock} clock level", ""))
    return parse_int(card.get(f"{clock} clock speed") or (level[1] if level else None))


def _range_maximum(text: str | None) -> int | None:
    match = _RANGE.search(text or "")
    return parse_int(match[1]) if match else None


def _link(text: str | None) -> tuple[int | None, int | None]:
    match = _LINK.search(text or "")
    return (_GENERATIONS.get(match[1]), int(match[2]) or None) if match else (None, None)


def _listed(system: Any) -> dict[int, str] | None:
    """Return pid -> line, `None` when processes were not requested."""
    lines = _strings(system) if isinstance(system, dict) else {}
    listed = {int(m[1]): text for key, text in lines.items() if (m := _PID.fullmatch(key))}
    return listed if listed or "pids for kfd processes" in lines else None


def _processes(listed: dict[int, str], cards: int) -> tuple[Process, ...] | None:
    """Return the processes of the only card; `None` when they could be on several.

    A line is "name, number of GPUs, VRAM, SDMA, CU": how many GPUs, not which.
    """
    processes = []
    for pid, text in sorted(listed.items()):
        # The name itself may hold commas.
        cells = [cell.strip() for cell in text.rsplit(",", 4)]
        gpu_count = parse_int(cells[1]) if len(cells) == 5 else None
        if gpu_count == 0:
            continue
        if gpu_count != 1 or cards != 1:
            return None
        processes.append(_process(pid, cells))
    return tuple(processes)


def _process(pid: int, cells: list[str]) -> Process:
    memory = check_fields({"gpu_memory_bytes": parse_bytes(cells[2], "B")}, {})["gpu_memory_bytes"]
    return Process(pid=pid, kind="compute", name=parse_text(cells[0]), gpu_memory_bytes=memory)
