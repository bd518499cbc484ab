"""Advice on jobs that used fewer or smaller resources than they held, as short sentences."""

from collections.abc import Iterable, Sequence
from math import ceil

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.history import JobPart, Sums
from fleet_smi.model.units import GIB

_MIN_GPU_SECONDS = 1800.0  # shorter jobs get no advice
_MIN_IDLE_SECONDS, _MIN_IDLE_SHARE, _ALL_SHARE = 3600.0, 0.3, 0.98
_MIN_MEASURED_SHARE = 0.8  # of the time; below it the load counts as unknown
_UNUSED_LOAD, _USED_LOAD = 0.005, 0.05  # in between a GPU is called neither
_SMALL_MEMORY_SHARE, _LARGE_GPU_BYTES, _LOW_LOAD = 0.25, 16 * GIB, 0.5


class _GpuUse(Struct):
    """The use of one GPU by a job."""

    gpu_seconds: float = 0.0
    measured_seconds: float = 0.0
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    peak_bytes: int | None = 0
    total_bytes: int | None = None
    load: float | None = None
    """The mean load, from 0 to 1; `None` where too little of the time was measured."""


def advice(parts: Sequence[JobPart]) -> tuple[str, ...]:
    """The advice on a job, the most important first; empty for most jobs."""
    if len(parts) == 1 and _is_well_used(parts[0].occupancy.sums):
        return ()
    if sum([part.occupancy.sums.gpu_seconds for part in parts]) < _MIN_GPU_SECONDS:
        return ()
    uses = _gpu_uses(parts)
    # An unknown load counts as use: advice must not be a guess.
    in_use = [use for use in uses if use.load is None or use.load >= _UNUSED_LOAD]
    if not in_use:
        return ("never used the GPU" if len(uses) == 1 else f"never used its {len(uses)} GPUs",)
    sentences = (_too_many(uses, len(in_use)), _idle(in_use), _too_large(in_use))
    return tuple([sentence for sentence in sentences if sentence is not None])


def with_idle_time(part: JobPart) -> JobPart:
    """Return a part of a job; a GPU that it never used was idle all the time.

    The state held begins minutes after its cause: by it alone, "never used" would be idle less.
    """
    sums = part.occupancy.sums
    is_measured = sums.measured_seconds > _MIN_MEASURED_SHARE * sums.gpu_seconds
    if not is_measured or sums.busy_seconds >= _UNUSED_LOAD * sums.measured_seconds:
        return part
    sums = replace(sums, idle_seconds=sums.gpu_seconds - sums.busy_seconds)
    return replace(part, occupancy=replace(part.occupancy, sums=sums))


def _is_well_used(sums: Sums) -> bool:
    """A shortcut: most jobs use one GPU so well that there is no advice."""
    # One part is one GPU, so it is never too many. The first two conditions rule out "never used"
    # and "a smaller GPU would do", the third rules out "idle".
    return (
        sums.measured_seconds > _MIN_MEASURED_SHARE * sums.gpu_seconds
        and sums.busy_seconds >= _LOW_LOAD * sums.measured_seconds
        and sums.idle_seconds < _MIN_IDLE_SHARE * sums.gpu_seconds
    )


def _gpu_uses(parts: Iterable[JobPart]) -> list[_GpuUse]:
    by_gpu: dict[tuple[str, str], _GpuUse] = {}
    for part in parts:
        gpu_key, sums = (part.gpu.node_id, part.gpu.uuid), part.occupancy.sums
        use = by_gpu.get(gpu_key) or by_gpu.setdefault(gpu_key, _GpuUse())
        use.gpu_seconds += sums.gpu_seconds
        use.measured_seconds += sums.measured_seconds
        use.busy_seconds += sums.busy_seconds
        use.idle_seconds += sums.idle_seconds
        peak = part.occupancy.peak_memory_bytes
        # An upper bound: the processes on a GPU need not have had their peaks at the same time.
        use.peak_bytes = None if use.peak_bytes is None or peak is None else use.peak_bytes + peak
        # There is no advice on the size of a MIG instance.
        use.total_bytes = None if part.gpu.parent else part.gpu.memory_total_bytes
    for use in by_gpu.values():
        if use.measured_seconds > _MIN_MEASURED_SHARE * use.gpu_seconds:
            use.load = use.busy_seconds / use.measured_seconds
    return list(by_gpu.values())


def _too_many(uses: Sequence[_GpuUse], used: int) -> str | None:
    if used == len(uses):
        return None
    loads = [use.load for use in uses]
    is_clear = all(
        load is not None and (load < _UNUSED_LOAD or load >= _USED_LOAD) for load in loads
    )
    return f"held {len(uses)} GPUs, used {used}" if is_clear else None


def _idle(uses: Sequence[_GpuUse]) -> str | None:
    idle = sum([use.idle_seconds for use in uses])
    total = sum([use.gpu_seconds for use in uses])
    if idle < _MIN_IDLE_SECONDS or idle < _MIN_IDLE_SHARE * total:
        return None
    if idle > _ALL_SHARE * total:
        return f"idle all of its {_hours(total)}"
    if len(uses) == 1:
        return f"idle for {_hours(idle)} of {_hours(total)}"
    return f"idle for {idle / 3600:.0f} of {total / 3600:.0f} GPU-hours"


def _too_large(uses: Sequence[_GpuUse]) -> str | None:
    """Given only to jobs that do not need the speed of a large GPU either."""
    if not all(map(_has_unused_memory, uses)):
        return None
    peak = max(use.peak_bytes or 0 for use in uses)
    smallest = min(use.total_bytes or 0 for use in uses)
    return f"used at most {ceil(peak / GIB)} of {smallest / GIB:.0f} GiB: a smaller GPU would do"


def _has_unused_memory(use: _GpuUse) -> bool:
    peak, total, load = use.peak_bytes, use.total_bytes, use.load
    if not peak or not total or total < _LARGE_GPU_BYTES or peak > _SMALL_MEMORY_SHARE * total:
        return False
    return load is not None and load < _LOW_LOAD


def _hours(seconds: float) -> str:
    """A duration to the minute: "45 min", "9 h", "7 h 12"."""
    hours, minutes = divmod(round(seconds / 60), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes:02d}" if minutes else f"{hours} h"
