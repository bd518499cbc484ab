"""AMD GPUs, from the files of the `amdgpu` driver."""

import re
from collections.abc import Iterator
from typing import Any

from fleet_smi.model.pci_names import is_integrated_gpu
from fleet_smi.model.range_check import check_fields, check_range, check_temperature, first_known
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.node import drm_parsing as drm
from fleet_smi.node.collector import SnapshotPart

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
        """Parse what `bindings.amdgpu.read` returned."""
        used_uuids: set[str] = set()
        nodes = _compute_nodes_by_pci(raw)
        # The order of compute nodes is the order in which HIP counts the devices.
        cards = sorted(raw["cards"], key=lambda card: _sort_key(card, nodes))
        return SnapshotPart(
            gpus=tuple(
                _gpu(index, card, nodes.get(card["pci"], []), raw, used_uuids)
                for index, card in enumerate(cards)
            )
        )


def _sort_key(card: dict[str, Any], nodes: dict[str, list[dict[str, Any]]]) -> tuple[Any, ...]:
    own = nodes.get(card["pci"])
    return (own[0]["node"] if own else float("inf"), card["pci"] or "", card["card"])


def _gpu(
    index: int,
    card: dict[str, Any],
    nodes: list[dict[str, Any]],
    raw: dict[str, Any],
    used_uuids: set[str],
) -> Gpu:
    unread: dict[str, str] = {}
    shared = _lives_in_host_memory(card, nodes)
    return drm.build_gpu(
        card,
        index,
        "amd",
        _figures(card, shared, unread),
        _SOURCES,
        used_uuids,
        uuid=_unique_id(card, nodes),
        name=sanitize_text(card["files"].get("product_name", ""), 128),
        memory_shared=shared,
        performance_state=sanitize_text(card["files"].get("power_dpm_state", ""), 32) or None,
        processes=_processes(card, nodes, raw, shared, unread),
        unread=unread,
    )


def _unique_id(card: dict[str, Any], nodes: list[dict[str, Any]]) -> str | None:
    text = card["files"].get("unique_id", "")
    number = int(text, 16) if _UNIQUE_ID.fullmatch(text) else 0
    number = number or max((drm.parse_int(node.get("unique_id")) or 0 for node in nodes), default=0)
    # Spelt as ROCm does, which takes it in ROCR_VISIBLE_DEVICES. 0: the device has none.
    return f"GPU-{number:016x}" if 0 < number < 1 << 64 else None


def _lives_in_host_memory(card: dict[str, Any], nodes: list[dict[str, Any]]) -> bool:
    # The driver shows the voltage of the north bridge for processors with a GPU only.
    if card["hwmon"].get("in1_label") == "vddnb" or is_integrated_gpu(card["pci_id"] or ""):
        return True
    return any((drm.parse_int(node.get("cpu_cores_count")) or 0) > 0 for node in nodes)


def _figures(card: dict[str, Any], shared: bool, unread: dict[str, str]) -> drm.GpuFields:
    files, hwmon = card["files"], card["hwmon"]
    clock, memory_clock = (
        _clock_levels(files.get("pp_dpm_sclk")),
        _clock_levels(files.get("pp_dpm_mclk")),
    )
    corrected, uncorrected = _ecc(card["ras"])
    limit = drm.parse_scaled(hwmon.get("power1_cap"), drm.MICRO)
    fields = check_fields(
        {
            "busy_percent": drm.parse_int(files.get("gpu_busy_percent")),
            "memory_busy_percent": drm.parse_int(files.get("mem_busy_percent")),
            "memory_used_bytes": _memory(files, "used", shared),
            "memory_total_bytes": _memory(files, "total", shared) or None,
            "fan_percent": _fan_percent(hwmon),
            "power_watts": first_known(
                drm.parse_scaled(hwmon.get("power1_average"), drm.MICRO),
                drm.parse_scaled(hwmon.get("power1_input"), drm.MICRO),
            ),
            "power_limit_watts": limit or None,
            "sm_clock_mhz": first_known(
                drm.parse_scaled_int(drm.sensor_value(hwmon, "freq", "sclk"), drm.MICRO), clock[0]
            ),
            "sm_clock_max_mhz": clock[1],
            "memory_clock_mhz": first_known(
                drm.parse_scaled_int(drm.sensor_value(hwmon, "freq", "mclk"), drm.MICRO),
                memory_clock[0],
            ),
            "memory_clock_max_mhz": memory_clock[1],
            "ecc_corrected": corrected,
            "ecc_uncorrected": uncorrected,
            "memory_temperature_celsius": drm.parse_scaled(
                drm.sensor_value(hwmon, "temp", "mem"), 1000
            ),
            **drm.pcie_link_fields(card["link"]),
        },
        unread,
    )
    celsius = drm.first_temperature(hwmon, _TEMPERATURE_LABELS)
    fields["temperature_celsius"] = check_temperature(celsius, fields["busy_percent"], unread)
    drm.explain_read_errors(card, fields, _SOURCES, unread)
    return fields


def _memory(files: dict[str, str], kind: str, shared: bool) -> int | None:
    vram = drm.parse_int(files.get(f"mem_info_vram_{kind}"))
    if not shared:
        return vram
    # A processor's GPU has a small part of the host's memory set aside as "VRAM" (512 MiB is
    # common) and takes what it needs beyond that from GTT: what a job can get is the sum.
    gtt = drm.parse_int(files.get(f"mem_info_gtt_{kind}"))
    return None if vram is None or gtt is None else vram + gtt


def _fan_percent(hwmon: dict[str, str]) -> float | None:
    duty, max_duty = drm.parse_int(hwmon.get("pwm1")), drm.parse_int(hwmon.get("pwm1_max"))
    speed, max_speed = drm.parse_int(hwmon.get("fan1_input")), drm.parse_int(hwmon.get("fan1_max"))
    by_speed = speed / max_speed * 100 if speed is not None and max_speed else None
    if duty is None or not max_duty:
        return by_speed
    # Seen on RX 6600: a duty of 0 while the fan turns. The measured speed wins.
    return by_speed if duty == 0 and by_speed else duty / max_duty * 100


def _clock_levels(text: str | None) -> tuple[int | None, int | None]:
    """Return the current clock, marked by a star, and the highest one of a `pp_dpm_` list."""
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


def _compute_nodes_by_pci(raw: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return PCI address -> the compute nodes (KFD) of that card."""
    cards = {name: card["pci"] for card in raw["cards"] for name in (card["pci"], *card["nodes"])}
    found: dict[str, list[dict[str, Any]]] = {}
    for node in raw["kfd_nodes"]:
        known = [cards[name] for name in _card_names(node) if name in cards]
        if known:
            found.setdefault(known[0], []).append(node)
    return found


def _card_names(node: dict[str, Any]) -> Iterator[str]:
    """Yield the names by which a compute node's card may be listed, best first."""
    location, domain = (
        drm.parse_int(node.get("location_id")),
        drm.parse_int(node.get("domain", "0")),
    )
    if not drm.parse_int(node.get("simd_count")) or location is None or domain is None:
        return
    # `location_id` is bus (8 bits), device (5) and function (3).
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
    found = drm.client_processes(raw["drm"], card["pci"], lambda region: region in regions)
    for pid, memory in _compute_processes(nodes, raw["kfd_processes"] or []):
        as_client = found[pid].gpu_memory_bytes if pid in found else None
        # The two lists overlap, so the larger size is the most that is known to be held.
        known = [size for size in (memory, as_client) if size is not None]
        found[pid] = Process(pid=pid, kind="compute", gpu_memory_bytes=max(known, default=None))
    missing = "asleep: not read" if card["asleep"] else drm.missing_clients_reason(raw["drm"])
    if missing:
        unread["processes"] = f"graphics clients may be missing: {missing}"
    # Unknown, not empty: an empty list would make the GPU look free.
    if missing and not found and raw["kfd_processes"] is None:
        return None
    return tuple(found[pid] for pid in sorted(found))


def _compute_processes(
    nodes: list[dict[str, Any]], processes: list[dict[str, Any]]
) -> Iterator[tuple[int, int | None]]:
    """Yield the pids that compute on any of these nodes, with their bytes of VRAM.

    The kernel lists every process for every GPU, with 0 bytes on those that it does not use.
    """
    ids = {node["gpu_id"] for node in nodes if node["gpu_id"]}
    for process in processes:
        sizes = [drm.parse_int(text) for gpu_id, text in process["vram"].items() if gpu_id in ids]
        held = sum(size for size in sizes if size is not None and size > 0)
        if held or ids.intersection(process["queues"]):
            known = held if any(size is not None for size in sizes) else None
            yield process["pid"], check_range("gpu_memory_bytes", known, {})
