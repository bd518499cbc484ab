"""What is remembered of one GPU between samples: a few aggregates, never the samples."""

from msgspec import Struct

from fleet_smi.model.snapshot import FaultKind, Gpu, Instance, Process
from fleet_smi.model.verdict.process_group import ProcessGroup, summarize_processes
from fleet_smi.model.verdict.readings import (
    MemoryLevel,
    instance_power_share,
    power_share,
    utilisation,
)
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.unattributed_load import (
    NONE_OVER_THRESHOLD,
    OverThreshold,
    check_thresholds,
    median_load,
)

RECENT_SAMPLES = 6
_FULL_PERCENT = 99.5
_HOLE_INTERVALS = 3
_ROUNDING_SECONDS = 5.0

HardwareState = tuple[FaultKind | None, bool, str | None, bool | None, int]
"""All but the processes that acts at once: fault, asleep, compute mode, MIG, instances."""


class Window(Struct, frozen=True, gc=False):
    """What the samples of one GPU or instance so far amount to.

    Every time is by the watcher's clock. A `…_from` is the start of a run that still
    lasts, and `None` when there is none. `samples` counts since the last long hole. `load`
    is the utilisation that was `measured_at`: the last one, unless that is long ago. `pids`
    is `None` when the processes could not be read; `joined_at` is when the youngest came.
    `recent` are the last few utilisations, `level` is how much memory is used, and `over`
    what is over its threshold with these same processes: they are kept only where none of
    them computes. `changed` tells whether the processes or the `mark` differ from the
    sample before. `skew` is this clock less the node's.
    """

    last_at: float
    samples: int = 1
    load: float | None = None
    measured_at: float | None = None
    idle_from: float | None = None
    worked_at: float | None = None
    full_from: float | None = None
    low_power_from: float | None = None
    pids: frozenset[int] | None = None
    joined_at: float | None = None
    recent: tuple[float, ...] = ()
    level: MemoryLevel = "unknown"
    over: OverThreshold = NONE_OVER_THRESHOLD
    mark: HardwareState | None = None
    changed: bool = True
    skew: float = 0.0

    @property
    def median(self) -> float | None:
        """The middle of the last few utilisations; `None` when none was measured lately."""
        return median_load(self.recent)

    @property
    def idle_seconds(self) -> float | None:
        """How long everyone on it has done nothing."""
        return self._lasting(self.idle_from)

    @property
    def low_power_seconds(self) -> float | None:
        """How long it has drawn idle power with everyone on it."""
        return self._lasting(self.low_power_from)

    @property
    def stalled_seconds(self) -> float | None:
        """How long it has claimed full utilisation at idle power; `None` when it does not."""
        if self.full_from is None or self.low_power_from is None:
            return None
        return self.last_at - max(self.full_from, self.low_power_from)

    def _lasting(self, start: float | None) -> float | None:
        # A GPU idle for hours before a process came says nothing about the process.
        if start is None:
            return None
        return self.last_at - (start if self.joined_at is None else max(start, self.joined_at))


def observe(
    window: Window | None,
    gpu: Gpu | Instance,
    at: float,
    settings: Thresholds,
    parent: Gpu | None = None,
    interval_seconds: float | None = None,
    skew: float = 0.0,
    group: ProcessGroup | None = None,
) -> Window:
    """Take one more sample in; an instance comes with the GPU that is its `parent`.

    `crowd` is who is on it, where that is worked out already.
    """
    card = gpu if isinstance(gpu, Gpu) else parent
    if card is None:
        raise TypeError("an instance is observed with the GPU that it is a part of")
    group = group or summarize_processes(gpu.processes)
    pids, hole = group.pids, settings.hole_seconds
    if interval_seconds is not None and interval_seconds * _HOLE_INTERVALS > hole:
        hole = interval_seconds * _HOLE_INTERVALS
    if window is None:
        moved, joined_at = False, _joined_at(None, gpu.processes, at, skew)
    else:
        moved = pids is not window.pids and pids != window.pids
        joined_at = _joined_at(window, gpu.processes, at, skew) if moved else window.joined_at
    before = (
        window if window is not None and 0 <= at - window.last_at <= hole else _anew(window, at)
    )
    load = utilisation(gpu, settings)
    if load is None:
        runs = _unmeasured(before, at, hole, moved)
    else:
        runs = _measured(before, load, at, settings)
    share = power_share(card) if isinstance(gpu, Gpu) else instance_power_share(card, gpu)
    if moved and group.empty:
        runs = *runs[:3], None, runs[4]  # that was the work of those who have left
    weighed = _EXPLAINED
    if not group.computes:
        recent = _recent(before, load, runs[1], group, moved)
        was = NONE_OVER_THRESHOLD if moved else before.over
        weighed = recent, *check_thresholds(was, gpu, card, group, recent, share, settings)
    low_from = None
    if share is not None and share < settings.idle_power_fraction:
        low_from = at if before.low_power_from is None else before.low_power_from
    mark = _mark(card)
    changed = window is None or moved or mark != window.mark
    return Window(
        at, before.samples + 1, *runs, low_from, pids, joined_at, *weighed, mark, changed, skew
    )


# In the order of the fields of `Seen`: recent, level, over.
_EXPLAINED: tuple[tuple[float, ...], MemoryLevel, OverThreshold] = (
    (),
    "unknown",
    NONE_OVER_THRESHOLD,
)
_Runs = tuple[float | None, float | None, float | None, float | None, float | None]
"""The load and when it was measured; idle from, worked at, full from: in that order too."""


def _mark(card: Gpu) -> HardwareState:
    kind = None if card.fault is None else card.fault.kind
    return kind, card.asleep, card.compute_mode, card.mig_mode, len(card.instances)


def _anew(seen: Window | None, at: float) -> Window:
    """Nothing seen yet; after a long hole only the last work is remembered."""
    return Window(at, 0, worked_at=None if seen is None else seen.worked_at)


def _measured(before: Window, load: float, at: float, settings: Thresholds) -> _Runs:
    if load < settings.idle_percent:
        idle_from = before.idle_from
        return load, at, at if idle_from is None else idle_from, before.worked_at, None
    full_from = None
    if load >= _FULL_PERCENT:
        full_from = at if before.full_from is None else before.full_from
    return load, at, None, at, full_from


def _unmeasured(before: Window, at: float, hole: float, moved: bool) -> _Runs:
    """Let the runs go on over a missed reading, unless it is missed for long."""
    measured_at = before.measured_at
    if measured_at is None or at - measured_at > hole:
        return None, None, None, before.worked_at, None
    load = None if moved else before.load
    return load, measured_at, before.idle_from, before.worked_at, before.full_from


def _recent(
    before: Window, load: float | None, measured_at: float | None, crowd: ProcessGroup, moved: bool
) -> tuple[float, ...]:
    """The last few utilisations; those of another set of processes say nothing."""
    if moved:
        return () if load is None or crowd.empty else (load,)
    if load is None:
        return () if measured_at is None else before.recent
    return (*before.recent[1 - RECENT_SAMPLES :], load)


def _joined_at(
    seen: Window | None, processes: tuple[Process, ...] | None, at: float, skew: float
) -> float | None:
    """When the youngest process came: by its own start, else by when it was first seen."""
    if not processes:
        return None
    known = None if seen is None else seen.pids
    new = [process for process in processes if known is None or process.pid not in known]
    if seen is not None and not new:
        return seen.joined_at
    starts = [p.started_at + skew for p in new if p.started_at is not None]
    # A start in the future is a wrong clock's; a few seconds of it are rounding.
    starts = [start for start in starts if start <= at + _ROUNDING_SECONDS]
    started = min(max(starts), at) if starts else None
    if seen is None or known is None:
        return started
    return started if started is not None and started > seen.last_at else at
