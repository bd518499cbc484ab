"""What a job could have done with less, in plain words, where that is sure and worth saying."""

from collections.abc import Iterable, Sequence
from math import ceil

from msgspec import Struct

from fleet_smi.model.history import JobPart, Sums
from fleet_smi.model.units import GIB

_WORTH_SECONDS = 1800.0  # GPU-time below which nobody minds
_IDLE_SECONDS, _IDLE_SHARE, _ALL = 3600.0, 0.3, 0.98
_MEASURED_SHARE = 0.8  # of the time, for the load to be known
_UNUSED, _USED = 0.005, 0.05  # shares of the load; what is between is not called either
_SMALL_SHARE, _LARGE_BYTES, _LEISURE = 0.25, 16 * GIB, 0.5


class _Use(Struct):
    """What a job made of one GPU."""

    gpu_seconds: float = 0.0
    measured_seconds: float = 0.0
    busy_seconds: float = 0.0
    idle_seconds: float = 0.0
    peak_bytes: int | None = 0
    total_bytes: int | None = None
    load: float | None = None
    """The mean share of the time that it worked; `None` where too little was measured."""


def advice(parts: Sequence[JobPart]) -> tuple[str, ...]:
    """What there is to say of a job, most important first; often nothing."""
    if len(parts) == 1 and _is_well_used(parts[0].occupancy.sums):
        return ()
    if sum([part.occupancy.sums.gpu_seconds for part in parts]) < _WORTH_SECONDS:
        return ()
    uses = _uses(parts)
    in_use = [use for use in uses if use.load is None or use.load >= _UNUSED]
    if not in_use:
        return ("never used the GPU" if len(uses) == 1 else f"never used its {len(uses)} GPUs",)
    said = (_too_many(uses, len(in_use)), _idle(in_use), _too_large(in_use))
    return tuple([words for words in said if words is not None])


def _is_well_used(sums: Sums) -> bool:
    """Whether a GPU was used so much that there is nothing to say: so most jobs are."""
    return (
        sums.measured_seconds > _MEASURED_SHARE * sums.gpu_seconds
        and sums.busy_seconds >= _LEISURE * sums.measured_seconds
        and sums.idle_seconds < _IDLE_SHARE * sums.gpu_seconds
    )


def _uses(parts: Iterable[JobPart]) -> list[_Use]:
    by_gpu: dict[tuple[str, str], _Use] = {}
    for part in parts:
        place, sums = (part.gpu.node_id, part.gpu.uuid), part.occupancy.sums
        use = by_gpu.get(place) or by_gpu.setdefault(place, _Use())
        use.gpu_seconds += sums.gpu_seconds
        use.measured_seconds += sums.measured_seconds
        use.busy_seconds += sums.busy_seconds
        use.idle_seconds += sums.idle_seconds
        peak = part.occupancy.peak_memory_bytes
        # At most: the processes on one GPU need not have had their peaks at one time.
        use.peak_bytes = None if use.peak_bytes is None or peak is None else use.peak_bytes + peak
        use.total_bytes = None if part.gpu.parent else part.gpu.memory_total_bytes
    for use in by_gpu.values():
        if use.measured_seconds > _MEASURED_SHARE * use.gpu_seconds:
            use.load = use.busy_seconds / use.measured_seconds
    return list(by_gpu.values())


def _too_many(uses: Sequence[_Use], used: int) -> str | None:
    if used == len(uses):
        return None
    loads = [use.load for use in uses]
    told = all(load is not None and (load < _UNUSED or load >= _USED) for load in loads)
    return f"held {len(uses)} GPUs, used {used}" if told else None


def _idle(uses: Sequence[_Use]) -> str | None:
    idle = sum([use.idle_seconds for use in uses])
    whole = sum([use.gpu_seconds for use in uses])
    if idle < _IDLE_SECONDS or idle < _IDLE_SHARE * whole:
        return None
    if idle > _ALL * whole:
        return f"idle all of its {_hours(whole)}"
    if len(uses) == 1:
        return f"idle for {_hours(idle)} of {_hours(whole)}"
    return f"idle for {idle / 3600:.0f} of {whole / 3600:.0f} GPU-hours"


def _too_large(uses: Sequence[_Use]) -> str | None:
    """Said only of jobs that do not need the speed of a large GPU either."""
    if not all(map(_has_too_much, uses)):
        return None
    peak = max(use.peak_bytes or 0 for use in uses)
    smallest = min(use.total_bytes or 0 for use in uses)
    return f"used at most {ceil(peak / GIB)} of {smallest / GIB:.0f} GiB: a smaller GPU would do"


def _has_too_much(use: _Use) -> bool:
    peak, whole, load = use.peak_bytes, use.total_bytes, use.load
    if not peak or not whole or whole < _LARGE_BYTES or peak > _SMALL_SHARE * whole:
        return False
    return load is not None and load < _LEISURE


def _hours(seconds: float) -> str:
    """A length of time to the minute: "45 min", "9 h", "7 h 12"."""
    hours, minutes = divmod(round(seconds / 60), 60)
    if not hours:
        return f"{minutes} min"
    return f"{hours} h {minutes:02d}" if minutes else f"{hours} h"
