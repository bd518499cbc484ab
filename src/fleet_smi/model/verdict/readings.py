"""Validated readings for the verdict rules: an impossible value counts as not measured."""

from collections.abc import Iterable
from typing import Literal

from fleet_smi.model.programs import DISPLAY_PROGRAMS, SERVICE_PROGRAMS
from fleet_smi.model.range_check import RANGES
from fleet_smi.model.snapshot import NOT_REPORTED_BY, Gpu, Instance, Process
from fleet_smi.model.units import GIB
from fleet_smi.model.verdict.thresholds import Thresholds

MemoryLevel = Literal["low", "high", "unknown"]

_MAX_BYTES = RANGES["memory_used_bytes"][1]
# A float, as the figures are: two floats are compared faster than a float and an integer.
MAX_WATTS = float(RANGES["power_watts"][1])
_MAX_ERRORS = RANGES["ecc_uncorrected"][1]
# Memory that was over its ceiling counts as high until it is under this fraction of it.
_MEMORY_RELEASE = 0.8
_MAX_SERVICE_BYTES = GIB
_MPS_PROGRAMS = ("nvidia-cuda-mps-server", "nvidia-cuda-mps-control")


def valid_percent(value: float | None) -> float | None:
    """Return the percentage, or `None` where the value cannot be one."""
    return value if value is not None and 0 <= value <= 100 else None


def is_over(value: float, threshold: float, was_over: bool, release_fraction: float) -> bool:
    """Compare with hysteresis: once over, it stays so until under the fraction of `threshold`."""
    return value >= (release_fraction * threshold if was_over else threshold)


def utilisation(gpu: Gpu | Instance, thresholds: Thresholds, desktop: bool = False) -> float | None:
    """Return the utilisation in percent: of the cores or, where that is more, the video engines.

    On a GPU with nothing but a `desktop` the decoder does not count beside the cores: it is a
    browser that plays a video.
    """
    busy, video = gpu.busy_percent, 0.0
    if busy is not None and not 0.0 <= busy <= 100.0:
        busy = None
    if isinstance(gpu, Gpu) and (gpu.encoder_percent or gpu.decoder_percent):
        only_encoder = desktop and busy is not None
        video = video_load(gpu.encoder_percent, None if only_encoder else gpu.decoder_percent)
    if busy is None:
        # Idle video engines say nothing about the cores.
        return video if video >= thresholds.idle_percent else None
    return video if video > busy else busy


def video_percent(gpu: Gpu | Instance) -> float:
    """Return the utilisation of the video engines in percent; 0 where it is not measured."""
    if isinstance(gpu, Gpu):
        return video_load(gpu.encoder_percent, gpu.decoder_percent)
    return 0.0


def video_load(encoder_percent: float | None, decoder_percent: float | None) -> float:
    """Return the utilisation of the busier video engine in percent; 0 where it is not measured."""
    if not (encoder_percent or decoder_percent):
        return 0.0
    return max(valid_percent(encoder_percent) or 0.0, valid_percent(decoder_percent) or 0.0)


def total_memory(gpu: Gpu | Instance) -> int | None:
    """Return the bytes of memory it has; `None` where that is unknown or impossible."""
    total = gpu.memory_total_bytes
    return total if total is not None and 0 < total <= _MAX_BYTES else None


def used_memory(gpu: Gpu | Instance) -> int | None:
    """Return the bytes of its memory in use; `None` where that is unknown or impossible."""
    used, maximum = gpu.memory_used_bytes, total_memory(gpu) or _MAX_BYTES
    return used if used is not None and 0 <= used <= maximum else None


def free_memory(gpu: Gpu | Instance) -> int | None:
    """Return the bytes of its memory that are not in use; `None` where either is unknown."""
    total, used = total_memory(gpu), used_memory(gpu)
    return None if total is None or used is None else total - used


def memory_omitted_by(gpu: Gpu | Instance) -> str | None:
    """Return the name of the older tool whose report has no memory figures, if that is why."""
    why = gpu.unread.get("memory_used_bytes", "")
    return why.removeprefix(NOT_REPORTED_BY) if why.startswith(NOT_REPORTED_BY) else None


def process_memory(process: Process) -> int | None:
    """Return the bytes of GPU memory that a process holds; `None` where that is unknown."""
    held = process.gpu_memory_bytes
    return held if held is not None and 0 <= held <= _MAX_BYTES else None


def total_process_memory(processes: Iterable[Process]) -> int | None:
    """Return the bytes that processes hold in sum; `None` unless each of them has a figure."""
    total = 0
    for process in processes:
        held = process_memory(process)
        if held is None:
            return None
        total += held
    return total


def memory_level(
    gpu: Gpu | Instance,
    thresholds: Thresholds,
    *,
    shared: bool = False,
    was_high: bool = False,
    desktop_bytes: int | None = None,
) -> MemoryLevel:
    """Return how the memory in use compares with the ceiling of a free GPU.

    Where the memory is `shared` with the host, only that of its processes counts. Once high, it
    stays so (`was_high`) until it is well under the ceiling. What a desktop alone accounts for
    (`desktop_bytes`) has a ceiling of its own.
    """
    total, used = total_memory(gpu), gpu.memory_used_bytes
    if shared:
        total, used = None, _held_by_processes(gpu)
    if used is None or not 0 <= used <= (total or _MAX_BYTES):
        return "unknown"
    ceiling = thresholds.memory_ceiling(total)
    if desktop_bytes is not None and used - desktop_bytes < ceiling:
        ceiling = thresholds.display_ceiling(total)
    return "high" if is_over(used, ceiling, was_high, _MEMORY_RELEASE) else "low"


def memory_band(
    gpu: Gpu, thresholds: Thresholds, is_high: bool, desktop_bytes: int | None
) -> tuple[float, float]:
    """Return a range of the memory in use within which its `memory_level` stays the same.

    It ends a byte or two early: sums of floats are not exact.
    """
    total = total_memory(gpu)
    ceiling, maximum = thresholds.memory_ceiling(total), total or _MAX_BYTES
    if is_high:
        lowest = _MEMORY_RELEASE * ceiling
        # Beyond this the memory of a desktop has the same ceiling as any other.
        beyond_desktop = 0.0 if desktop_bytes is None else desktop_bytes + ceiling
        return max(lowest, beyond_desktop) + 1.0, maximum
    if desktop_bytes is not None:
        ceiling = min(desktop_bytes + ceiling, thresholds.display_ceiling(total))
    return 0.0, min(ceiling - 2.0, maximum)


def _held_by_processes(gpu: Gpu | Instance) -> int | None:
    # The memory figures of a shared device are those of the host and say nothing about the GPU.
    if gpu.processes is None:
        return None
    return sum(process_memory(process) or 0 for process in gpu.processes)


def power_share(gpu: Gpu) -> float | None:
    """Return the power drawn as a fraction of the limit; `None` where either is unknown."""
    watts, limit = gpu.power_watts, gpu.power_limit_watts
    if watts is None or limit is None:
        return None
    if not (0.0 <= watts <= MAX_WATTS and 0.0 < limit <= MAX_WATTS):
        return None
    return watts / limit


def instance_power_share(gpu: Gpu, instance: Instance) -> float | None:
    """Return the GPU's power share for one instance: only while no other instance is in use."""
    if any(other.processes for other in gpu.instances if other is not instance):
        return None
    return power_share(gpu)


def uncorrected_errors(gpu: Gpu) -> int:
    """Return the number of uncorrectable memory errors; 0 where they are not counted."""
    count = gpu.ecc_uncorrected
    return count if count is not None and 0 < count <= _MAX_ERRORS else 0


def is_mps_server(process: Process) -> bool:
    """Return whether it only serves MPS clients; those are listed beside it."""
    return process.name is not None and process.name.endswith(_MPS_PROGRAMS)


def is_service(process: Process) -> bool:
    """Return whether it is no user's work: an MPS server, or a small system service."""
    if process.name is None:
        return False
    if process.name in SERVICE_PROGRAMS:
        return (process_memory(process) or 0) < _MAX_SERVICE_BYTES
    return process.name.endswith(_MPS_PROGRAMS)


def is_display(process: Process) -> bool:
    """Return whether it draws a screen: graphics alone, a desktop program, or any with a window."""
    if process.kind == "graphics":
        return True
    return process.kind == "compute+graphics" and (is_desktop(process) or is_windowed(process))


def is_desktop(process: Process) -> bool:
    """Return whether it is a known desktop program that draws; some also compute a little."""
    return (
        process.kind in ("graphics", "compute+graphics")
        and process.name in DISPLAY_PROGRAMS
        and not process.hidden
    )


def is_windowed(process: Process) -> bool:
    """Return whether a windowing driver lists it: compute and graphics, without a memory figure.

    Such drivers (WDDM on Windows) list every program with a window in this way.
    """
    return (
        process.kind == "compute+graphics"
        and process.gpu_memory_bytes is None
        and not process.hidden
    )
