"""Readings fit to be judged: what cannot be true counts as not measured."""

from collections.abc import Iterable
from typing import Literal

from fleet_smi.model.range_check import RANGES
from fleet_smi.model.snapshot import Gpu, Instance, Process
from fleet_smi.model.verdict.thresholds import Thresholds

MemoryLevel = Literal["low", "high", "unknown"]

_MOST_BYTES = RANGES["memory_used_bytes"][1]
_MOST_WATTS = RANGES["power_watts"][1]
_MOST_ERRORS = RANGES["ecc_uncorrected"][1]
# Memory that was over its ceiling counts as high until it is under this share of it.
_MEMORY_KEPT = 0.8
_MPS_PROGRAMS = ("nvidia-cuda-mps-server", "nvidia-cuda-mps-control")


def valid_percent(value: float | None) -> float | None:
    """A share of 100, or `None` where the figure cannot be one."""
    return value if value is not None and 0 <= value <= 100 else None


def is_over(value: float, threshold: float, was_over: bool, release_fraction: float) -> bool:
    """Whether `value` is over `threshold`; once it `was`, until it is under `kept` of that."""
    return value >= (release_fraction * threshold if was_over else threshold)


def utilisation(gpu: Gpu | Instance, settings: Thresholds) -> float | None:
    """How hard it works: its cores or, where these rest or cannot be told, its video engines."""
    busy, video = gpu.busy_percent, 0.0
    if busy is not None and not 0 <= busy <= 100:
        busy = None
    if isinstance(gpu, Gpu) and (gpu.encoder_percent or gpu.decoder_percent):
        video = video_percent(gpu)
    if busy is None:
        # Idle video engines say nothing about the cores.
        return video if video >= settings.idle_percent else None
    return video if video > busy else busy


def video_percent(gpu: Gpu | Instance) -> float:
    """How hard its video engines work; 0 where that cannot be told."""
    if isinstance(gpu, Gpu):
        return max(
            valid_percent(gpu.encoder_percent) or 0.0, valid_percent(gpu.decoder_percent) or 0.0
        )
    return 0.0


def total_memory(gpu: Gpu | Instance) -> int | None:
    """Bytes of memory it has."""
    total = gpu.memory_total_bytes
    return total if total is not None and 0 < total <= _MOST_BYTES else None


def used_memory(gpu: Gpu | Instance) -> int | None:
    """Bytes of its memory in use."""
    used, most = gpu.memory_used_bytes, total_memory(gpu) or _MOST_BYTES
    return used if used is not None and 0 <= used <= most else None


def free_memory(gpu: Gpu | Instance) -> int | None:
    """Bytes of its memory that nothing uses."""
    total, used = total_memory(gpu), used_memory(gpu)
    return None if total is None or used is None else total - used


def process_memory(process: Process) -> int | None:
    """Bytes of GPU memory one process holds."""
    held = process.gpu_memory_bytes
    return held if held is not None and 0 <= held <= _MOST_BYTES else None


def total_process_memory(processes: Iterable[Process]) -> int | None:
    """Bytes that processes hold together; `None` unless each of them has a figure."""
    total = 0
    for process in processes:
        held = process_memory(process)
        if held is None:
            return None
        total += held
    return total


def memory_level(
    gpu: Gpu | Instance, settings: Thresholds, *, shared: bool = False, was_high: bool = False
) -> MemoryLevel:
    """Whether so little memory is used that nobody need be there."""
    total, used = total_memory(gpu), gpu.memory_used_bytes
    if shared:
        total, used = None, _held_of_host(gpu)
    if used is None or not 0 <= used <= (total or _MOST_BYTES):
        return "unknown"
    ceiling = settings.memory_ceiling(total)
    return "high" if is_over(used, ceiling, was_high, _MEMORY_KEPT) else "low"


def _held_of_host(gpu: Gpu | Instance) -> int | None:
    # The figures are the host's: only what the processes hold says anything.
    if gpu.processes is None:
        return None
    return sum(process_memory(process) or 0 for process in gpu.processes)


def power_share(gpu: Gpu) -> float | None:
    """The power it draws as a share of its limit; `None` where that cannot be said."""
    watts, limit = gpu.power_watts, gpu.power_limit_watts
    if watts is None or limit is None:
        return None
    if not (0 <= watts <= _MOST_WATTS and 0 < limit <= _MOST_WATTS):
        return None
    return watts / limit


def instance_power_share(gpu: Gpu, instance: Instance) -> float | None:
    """The GPU's power as evidence for one instance: only while nobody is on another."""
    if any(one.processes for one in gpu.instances if one is not instance):
        return None
    return power_share(gpu)


def uncorrected_errors(gpu: Gpu) -> int:
    """Uncorrectable memory errors counted; 0 where they are not counted."""
    count = gpu.ecc_uncorrected
    return count if count is not None and 0 < count <= _MOST_ERRORS else 0


def is_mps_server(process: Process) -> bool:
    """Whether it only serves MPS clients; the clients are listed beside it."""
    return process.name is not None and process.name.endswith(_MPS_PROGRAMS)


def is_display(process: Process) -> bool:
    """Whether it draws a screen: graphics alone, or any program under a windowing driver."""
    return process.kind == "graphics" or is_windowed(process)


def is_windowed(process: Process) -> bool:
    """Whether a windowing driver lists it: graphics and compute in one, without a memory figure."""
    return (
        process.kind == "compute+graphics"
        and process.gpu_memory_bytes is None
        and not process.hidden
    )
