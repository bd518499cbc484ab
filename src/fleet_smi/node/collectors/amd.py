"""AMD GPUs, from the files of the `amdgpu` driver."""

import re
from collections.abc import Iterator
from typing import Any

from fleet_smi.model.pci import first_unused_id
from fleet_smi.model.pci_names import is_integrated_gpu, pci_name
from fleet_smi.model.range_check import check_fields, check_range, check_temperature, first_known
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.node.collector import SnapshotPart
from fleet_smi.node.drm_parsing import (
    GpuFields,
    client_processes,
    detect_fault,
    explain_read_errors,
    missing_clients_reason,
    parse_int,
    parse_scaled,
    parse_scaled_int,
    pci_bus_id,
    pcie_link_fields,
    sensor_value,
)

_MICRO = 1_000_000
_LEVEL = re.compile(r"(?:[0-9]{1,3}|S): ([0-9]{1,6})Mhz ?(\*?)", re.ASCII | re.IGNORECASE)
_ERRORS = re.compile(r"^(ue|ce): ([0-9]{1,20})$", re.ASCII | re.MULTILINE)
_UNIQUE_ID = re.compile(r"[0-9a-f]{1,16}", re.ASCII | re.IGNORECASE)
# The edge of the die is what every generation has; a few server cards know only its hottest spot.
_TEMPERATURE_LABELS = ("edge", "junction", None)
_SOURCES = {
    "gpu_busy_percent": "busy_percent",
    "mem_busy_percent": "memory_busy_percent",
    "mem_info_vram_used": "memory_used_bytes",
    "mem_info_vram_total": "memory_total_bytes",
    "temp1_input": "temperature_celsius",
    "pwm1": "fan_percent",
    "power1_average": "power_watts",
    "power1_input": "power_watts",
    "power1_cap": "power_limit_watts",
    "freq1_input": "sm_clock_mhz",
    "freq2_input": "memory_clock_mhz",
}


class AmdCollector:
    """AMD GPUs, from the files of the `amdgpu` driver."""

    name = "amd"

    def parse(self, raw: Any) -> SnapshotPart:
        """Make GPUs of what `bindings.amdgpu.read` returned."""
        taken: set[str] = set()
        nodes = _nodes_of_cards(raw)
        # The order of compute nodes is the order in which HIP counts the devices.
        cards = sorted(raw["cards"], key=lambda card: _order(card, nodes))
        return SnapshotPart(
            gpus=tuple(
                _gpu(index, card, nodes.get(card["pci"], []), raw, taken)
                for index, card in enumerate(cards)
            )
        )


def _order(card: dict[str, Any], nodes: dict[str, list[dict[str, Any]]]) -> tuple[Any, ...]:
    own = nodes.get(card["pci"])
    return (own[0]["node"] if own else float("inf"), card["pci"] or "", card["card"])


def _gpu(
    index: int,
    card: dict[str, Any],
    nodes: list[dict[str, Any]],
    raw: dict[str, Any],
    taken: set[str],
) -> Gpu:
    unread: dict[str, str] = {}
    shared = _lives_in_host_memory(card, nodes)
    figures = _figures(card, shared, unread)
    processes = _processes(card, nodes, raw, shared, unread)
    uuid = first_unused_id(
        (_unique_id(card, nodes), _address_id(card), f"amd-{card['card']}"), taken
    )
    return Gpu(
        uuid=uuid,
        uuid_is_made=not uuid.startswith("GPU-"),
        index=index,
        vendor="amd",
        name=_name(card),
        pci_bus_id=pci_bus_id(card),
        memory_shared=shared,
        performance_state=sanitize_text(card["files"].get("power_dpm_state", ""), 32) or None,
        asleep=card["asleep"],
        processes=processes,
        fault=detect_fault(card, (figures[name] for name in set(_SOURCES.values()))),
        **figures,
        unread=unread,
    )


def _unique_id(card: dict[str, Any], nodes: list[dict[str, Any]]) -> str | None:
    text = card["files"].get("unique_id", "")
    number = int(text, 16) if _UNIQUE_ID.fullmatch(text) else 0
    number = number or max((parse_int(node.get("unique_id")) or 0 for node in nodes), default=0)
    # Spelt as ROCm does, which takes it in ROCR_VISIBLE_DEVICES. 0: the device has none.
    return f"GPU-{number:016x}" if 0 < number < 1 << 64 else None


def _address_id(card: dict[str, Any]) -> str | None:
    return f"amd-{card['pci']}" if card["pci"] else None


def _name(card: dict[str, Any]) -> str:
    told = sanitize_text(card["files"].get("product_name", ""), 128)
    pci_id = sanitize_text((card["pci_id"] or "unknown").lower(), 16)
    return told or pci_name(pci_id) or f"AMD GPU [{pci_id}]"


def _lives_in_host_memory(card: dict[str, Any], nodes: list[dict[str, Any]]) -> bool:
    # The driver shows the voltage of the north bridge for processors with a GPU only.
    if card["hwmon"].get("in1_label") == "vddnb" or is_integrated_gpu(card["pci_id"] or ""):
        return True
    return any((parse_int(node.get("cpu_cores_count")) or 0) > 0 for node in nodes)


def _figures(card: dict[str, Any], shared: bool, unread: dict[str, str]) -> GpuFields:
    files, hwmon = card["files"], card["hwmon"]
    clock, memory_clock = _levels(files.get("pp_dpm_sclk")), _levels(files.get("pp_dpm_mclk"))
    corrected, uncorrected = _ecc(card["ras"])
    limit = parse_scaled(hwmon.get("power1_cap"), _MICRO)
    fields = check_fields(
        {
            "busy_percent": parse_int(files.get("gpu_busy_percent")),
            "memory_busy_percent": parse_int(files.get("mem_busy_percent")),
            "memory_used_bytes": _memory(files, "used", shared),
            "memory_total_bytes": _memory(files, "total", shared) or None,
            "fan_percent": _fan_percent(hwmon),
            "power_watts": first_known(
                parse_scaled(hwmon.get("power1_average"), _MICRO),
                parse_scaled(hwmon.get("power1_input"), _MICRO),
            ),
            "power_limit_watts": limit or None,
            "sm_clock_mhz": first_known(
                parse_scaled_int(sensor_value(hwmon, "freq", "sclk"), _MICRO), clock[0]
            ),
            "sm_clock_max_mhz": clock[1],
            "memory_clock_mhz": first_known(
                parse_scaled_int(sensor_value(hwmon, "freq", "mclk"), _MICRO), memory_clock[0]
            ),
            "memory_clock_max_mhz": memory_clock[1],
            "ecc_corrected": corrected,
            "ecc_uncorrected": uncorrected,
            "memory_temperature_celsius": parse_scaled(sensor_value(hwmon, "temp", "mem"), 1000),
            **pcie_link_fields(card["link"]),
        },
        unread,
    )
    heat = first_known(
        *(parse_scaled(sensor_value(hwmon, "temp", at), 1000) for at in _TEMPERATURE_LABELS)
    )
    fields["temperature_celsius"] = check_temperature(heat, fields["busy_percent"], unread)
    explain_read_errors(card, fields, _SOURCES, unread)
    return fields


def _memory(files: dict[str, str], what: str, shared: bool) -> int | None:
    vram = parse_int(files.get(f"mem_info_vram_{what}"))
    if not shared:
        return vram
    # A processor's GPU has a small part of the host's memory set aside as "VRAM" (512 MiB is
    # common) and takes what it needs beyond that from GTT: what a job can get is the sum.
    gtt = parse_int(files.get(f"mem_info_gtt_{what}"))
    return None if vram is None or gtt is None else vram + gtt


def _fan_percent(hwmon: dict[str, str]) -> float | None:
    duty, most_duty = parse_int(hwmon.get("pwm1")), parse_int(hwmon.get("pwm1_max"))
    speed, most_speed = parse_int(hwmon.get("fan1_input")), parse_int(hwmon.get("fan1_max"))
    by_speed = speed / most_speed * 100 if speed is not None and most_speed else None
    if duty is None or not most_duty:
        return by_speed
    # Seen on RX 6600: a duty of 0 beside a fan that turns. The fan is the witness.
    return by_speed if duty == 0 and by_speed else duty / most_duty * 100


def _levels(text: str | None) -> tuple[int | None, int | None]:
    """Return the clock that is marked as current and the highest of a `pp_dpm_` list."""
    levels = [(int(m[1]), m[2]) for line in (text or "").splitlines() if (m := _LEVEL.match(line))]
    current = next((mhz for mhz, star in levels if star), None)
    # Some firmware writes a list of zeros.
    return current, max((mhz for mhz, _ in levels), default=0) or None


def _ecc(ras: dict[str, str]) -> tuple[int | None, int | None]:
    """Return corrected and uncorrected errors of all blocks that count them."""
    counts: dict[str, list[int]] = {"ce": [], "ue": []}
    for text in ras.values():
        for kind, count in _ERRORS.findall(text):
            counts[kind].append(int(count))
    return tuple(sum(found) if found else None for found in counts.values())  # type: ignore[return-value]


def _nodes_of_cards(raw: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return PCI address -> compute nodes."""
    cards = {name: card["pci"] for card in raw["cards"] for name in (card["pci"], *card["nodes"])}
    found: dict[str, list[dict[str, Any]]] = {}
    for node in raw["kfd_nodes"]:
        known = [cards[name] for name in _names(node) if name in cards]
        if known:
            found.setdefault(known[0], []).append(node)
    return found


def _names(node: dict[str, Any]) -> Iterator[str]:
    """Yield what a compute node's card may be known by, best first."""
    location, domain = parse_int(node.get("location_id")), parse_int(node.get("domain", "0"))
    if not parse_int(node.get("simd_count")) or location is None or domain is None:
        return
    slot = f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}"
    yield f"renderD{node.get('drm_render_minor')}"
    yield f"{slot}.{location & 7}"
    yield f"{slot}.0"  # a partition has a function of its own at its card's address


def _processes(
    card: dict[str, Any],
    nodes: list[dict[str, Any]],
    raw: dict[str, Any],
    shared: bool,
    unread: dict[str, str],
) -> tuple[Process, ...] | None:
    regions = ("vram", "gtt") if shared else ("vram",)
    found = client_processes(raw["drm"], card["pci"], lambda region: region in regions)
    for pid, memory in _compute(nodes, raw["kfd_processes"] or []):
        drawn = found[pid].gpu_memory_bytes if pid in found else None
        # The two lists overlap, so the larger is the most that is known to be held.
        known = [size for size in (memory, drawn) if size is not None]
        found[pid] = Process(pid=pid, kind="compute", gpu_memory_bytes=max(known, default=None))
    missing = "asleep: not asked" if card["asleep"] else missing_clients_reason(raw["drm"])
    if missing:
        unread["processes"] = f"graphics clients may be missing: {missing}"
    if missing and not found and raw["kfd_processes"] is None:
        return None
    return tuple(found[pid] for pid in sorted(found))


def _compute(
    nodes: list[dict[str, Any]], processes: list[dict[str, Any]]
) -> Iterator[tuple[int, int | None]]:
    """Yield who computes on any of the nodes. All are listed with 0 bytes on GPUs not used."""
    ids = {node["gpu_id"] for node in nodes if node["gpu_id"]}
    for process in processes:
        sizes = [parse_int(text) for gpu_id, text in process["vram"].items() if gpu_id in ids]
        held = sum(size for size in sizes if size is not None and size > 0)
        if held or ids.intersection(process["queues"]):
            known = held if any(size is not None for size in sizes) else None
            yield process["pid"], check_range("gpu_memory_bytes", known, {})
