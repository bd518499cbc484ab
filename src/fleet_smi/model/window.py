"""What is remembered of one GPU between samples: a few aggregates, never the samples."""

from typing import NamedTuple

from msgspec import Struct

from fleet_smi.model.readings import (
    Level,
    is_deserted,
    is_over,
    lent_power,
    memory_level,
    percent,
    power_is_low,
    power_share,
    utilisation,
    video_percent,
)
from fleet_smi.model.snapshot import Gpu, Instance, Process
from fleet_smi.model.thresholds import Thresholds

RECENT = 6
_FULL_PERCENT = 99.5
_HOLE_INTERVALS = 3
_ROUNDING_SECONDS = 5.0
# With fewer samples than this, idle power outweighs a utilisation that may be an artefact.
_TRUSTED_SAMPLES = 3
# What was over its threshold counts as over until it is under this share of it.
_LOAD_KEPT = 0.5
_POWER_KEPT = 0.8
_NOBODY: frozenset[int] = frozenset()


class Over(NamedTuple):
    """What is over its threshold: once it is, it stays so until it is well under.

    The utilisation is the one that counts where no process explains it.
    """

    memory: bool = False
    load: bool = False
    power: bool = False


class Seen(Struct, frozen=True, kw_only=True, gc=False):
    """What the samples of one GPU or instance so far amount to.

    Every time is by the watcher's clock. A `…_from` is the start of a run that still
    lasts, and `None` when there is none. `samples` counts since the last long hole.
    `pids` is `None` when the processes could not be read; `joined_at` is when the
    youngest came. `level` is how much memory is used, `over` what is over its threshold
    with these same processes. `mark` is all else that acts at once, `changed` whether it or the
    processes differ from the sample before. `skew` is this clock less the node's.
    """

    last_at: float
    samples: int = 1
    recent: tuple[float, ...] = ()
    measured_at: float | None = None
    idle_from: float | None = None
    worked_at: float | None = None
    full_from: float | None = None
    low_power_from: float | None = None
    pids: frozenset[int] | None = None
    joined_at: float | None = None
    level: Level = "unknown"
    over: Over = Over()
    mark: tuple[object, ...] = ()
    changed: bool = True
    skew: float = 0.0

    @property
    def median(self) -> float | None:
        """The middle of the last few utilisations; `None` when none was measured lately."""
        return _median(self.recent)

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
    seen: Seen | None,
    gpu: Gpu | Instance,
    at: float,
    settings: Thresholds,
    parent: Gpu | None = None,
    interval_seconds: float | None = None,
    skew: float = 0.0,
) -> Seen:
    """Take one more sample in; an instance comes with the GPU that is its `parent`."""
    hole = max(settings.hole_seconds, _HOLE_INTERVALS * (interval_seconds or 0.0))
    pids, mark = _pids(gpu.processes), _mark(gpu, parent)
    joined_at = _joined_at(seen, gpu.processes, pids, at, skew)
    if seen is None:
        before, changed, moved = Seen(last_at=at, samples=0), True, False
    else:
        moved = pids != seen.pids
        before, changed = seen, moved or mark != seen.mark
        if not 0 <= at - seen.last_at <= hole:
            before = Seen(last_at=at, samples=0, worked_at=seen.worked_at)
    load = _load(before, utilisation(gpu, settings), at, settings, hole, moved=moved)
    if moved and not pids and pids is not None:
        # That was the work of those who have left.
        load = load._replace(recent=(), worked_at=None)
    low_power_from = _start(before.low_power_from, at) if _low(gpu, parent, settings) else None
    was = Over() if moved else before.over
    card = gpu if isinstance(gpu, Gpu) else parent
    shared = card is not None and card.memory_shared
    level = memory_level(gpu, settings, shared=shared, was_high=was.memory)
    may_be_artefact = level != "high" and low_power_from is not None
    over = Over(
        memory=was.memory if level == "unknown" else level == "high",
        load=_is_loud(was, gpu, load.recent, settings, may_be_artefact=may_be_artefact),
        power=_draws_power(was, gpu, settings),
    )
    return Seen(
        last_at=at,
        samples=before.samples + 1,
        recent=load.recent,
        measured_at=load.measured_at,
        idle_from=load.idle_from,
        worked_at=load.worked_at,
        full_from=load.full_from,
        low_power_from=low_power_from,
        pids=pids,
        joined_at=joined_at,
        level=level,
        over=over,
        mark=mark,
        changed=changed,
        skew=skew,
    )


class _Load(NamedTuple):
    """The utilisations to keep, and where the runs of them stand."""

    recent: tuple[float, ...]
    measured_at: float | None
    idle_from: float | None
    full_from: float | None
    worked_at: float | None


def _load(
    before: Seen, load: float | None, at: float, settings: Thresholds, hole: float, *, moved: bool
) -> _Load:
    """Take one more utilisation in.

    Earlier figures say nothing about a new set of processes: `moved` drops them.
    """
    idle_from, full_from, worked_at = before.idle_from, before.full_from, before.worked_at
    if load is None:
        if before.measured_at is None or at - before.measured_at > hole:
            return _Load((), None, None, None, worked_at)
        recent = () if moved else before.recent
        return _Load(recent, before.measured_at, idle_from, full_from, worked_at)
    recent = (load,) if moved else (*before.recent[1 - RECENT :], load)
    full_from = _start(full_from, at) if load >= _FULL_PERCENT else None
    if load < settings.idle_percent:
        return _Load(recent, at, _start(idle_from, at), full_from, worked_at)
    return _Load(recent, at, None, full_from, at)


def _median(loads: tuple[float, ...]) -> float | None:
    ordered = sorted(loads)
    count = len(ordered)
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2 if count else None


def _is_loud(
    was: Over,
    gpu: Gpu | Instance,
    recent: tuple[float, ...],
    settings: Thresholds,
    *,
    may_be_artefact: bool,
) -> bool:
    """Whether it works harder than a display would, by the median.

    Power may show that so few samples on an empty GPU are the known artefact of a first read.
    """
    median = _median(recent)
    if median is None:
        return False
    video = video_percent(gpu) >= settings.idle_percent
    if may_be_artefact and len(recent) < _TRUSTED_SAMPLES and not video and is_deserted(gpu):
        return False
    # Where the cores cannot be told, video engines at work are all the evidence there is.
    only_video = video and percent(gpu.busy_percent) is None
    threshold = settings.idle_percent if only_video else settings.display_percent
    return is_over(median, threshold, was=was.load, kept=_LOAD_KEPT)


def _draws_power(was: Over, gpu: Gpu | Instance, settings: Thresholds) -> bool:
    # The power of a whole card says nothing about one of its instances.
    share = power_share(gpu) if isinstance(gpu, Gpu) else None
    if share is None:
        return False
    return is_over(share, settings.idle_power_fraction, was=was.power, kept=_POWER_KEPT)


def _start(start: float | None, at: float) -> float:
    return at if start is None else start


def _pids(processes: tuple[Process, ...] | None) -> frozenset[int] | None:
    if processes:
        return frozenset([process.pid for process in processes])
    return None if processes is None else _NOBODY


def _low(gpu: Gpu | Instance, parent: Gpu | None, settings: Thresholds) -> bool | None:
    if isinstance(gpu, Gpu):
        return power_is_low(gpu, settings)
    return None if parent is None else lent_power(parent, gpu, settings)


def _mark(gpu: Gpu | Instance, parent: Gpu | None) -> tuple[object, ...]:
    card = gpu if isinstance(gpu, Gpu) else parent
    if card is None:
        return ()
    kind = None if card.fault is None else card.fault.kind
    return (kind, card.asleep, card.compute_mode, card.mig_mode, len(card.instances))


def _joined_at(
    seen: Seen | None,
    processes: tuple[Process, ...] | None,
    pids: frozenset[int] | None,
    at: float,
    skew: float,
) -> float | None:
    """When the youngest process came: by its own start, else by when it was first seen."""
    if not processes or not pids:
        return None
    known = None if seen is None else seen.pids
    if seen is not None and known is not None and pids <= known:
        return seen.joined_at
    new = [process for process in processes if known is None or process.pid not in known]
    starts = [p.started_at + skew for p in new if p.started_at is not None]
    # A start in the future is a wrong clock's; a few seconds of it are rounding.
    starts = [start for start in starts if start <= at + _ROUNDING_SECONDS]
    started = min(max(starts), at) if starts else None
    if seen is None or known is None:
        return started
    return started if started is not None and started > seen.last_at else at
