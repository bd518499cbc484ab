"""The sample window of one GPU: running aggregates of constant size, instead of the samples."""

from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.model.snapshot import FaultKind, Gpu, Instance, Process
from fleet_smi.model.verdict.idle_users import IdleUsers, track_idle_users
from fleet_smi.model.verdict.process_group import ProcessGroup, summarize_processes
from fleet_smi.model.verdict.readings import (
    MemoryLevel,
    instance_power_share,
    power_share,
    utilisation,
)
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.throttling import (
    ThrottleHistory,
    add_throttle_sample,
    shift_throttling,
    throttle_kind,
)
from fleet_smi.model.verdict.unattributed_load import (
    NONE_OVER_THRESHOLD,
    OverThreshold,
    check_thresholds,
    median_load,
)

RECENT_SAMPLES = 6
FULL_PERCENT = 99.5  # what is shown as 100 %
_GAP_INTERVALS = 3
_CLOCK_TOLERANCE_SECONDS = 5.0
# The mean utilisation follows the samples over about this share of the idle window.
MEAN_WINDOWS = 0.75
# Heavy work counts as this much in the mean, in multiples of idle, so that it is soon forgotten.
MEAN_CEILING = 2.0
# A mean that was under the threshold counts as under it until it is well over.
MEAN_RELEASE = 1.25

HardwareState = tuple[FaultKind | None, bool, str | None, bool | None, int]
"""What changes a verdict immediately: fault, asleep, compute mode, MIG mode, instances."""
# One object for all GPUs in the same state: a fleet has few of them.
_shared_state = lru_cache(maxsize=1024)(tuple[Any, ...])


# Part of the checkpoint of a node: what is on disk keeps the name that it was written with.
class Window(Struct, frozen=True, gc=False, rename={"hardware": "mark"}):
    """Aggregates over the samples of one GPU or instance so far.

    Every time is by the receiver's clock. A `…_from` is the start of a run that still lasts,
    and `None` when there is none. After a long gap in the samples the window starts again:
    `began_at` is the first sample since then, and `samples` their number.

    * `load` is the latest utilisation, read at `measured_at`; `None` if that is long ago.
      `mean` is the mean of the last minutes, with high values capped, and `peak` the highest
      value of the idle run.
    * `pids` are the processes that were last listed, at `listed_at`; the youngest came at
      `joined_at`. `changed`: they, the `hardware` or the `lease_holder` differ from the sample
      before. `ended`: one of the latter differs, or a process is gone.
    * `recent` are the last few utilisations, `level` how much memory is in use, `over` what is
      over its threshold. These are needed, and tracked, only while no process computes.
    * `skew` is by how many seconds this clock is ahead of the node's. `throttled` is tracked
      while there is a slowdown, `idle_users` while several users share the GPU.
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
    hardware: HardwareState | None = None
    changed: bool = True
    skew: float = 0.0
    mean: float | None = None
    peak: float = 0.0
    began_at: float | None = None
    throttled: ThrottleHistory | None = None
    idle_users: IdleUsers = ()
    listed_at: float | None = None
    ended: bool = False
    lease_holder: str | None = None

    @property
    def median(self) -> float | None:
        """The median of the last few utilisations; `None` when none was measured lately."""
        return median_load(self.recent)

    @property
    def idle_seconds(self) -> float | None:
        """How long all processes on it have been idle; `None` when they are not."""
        return self._lasting(self.idle_from)

    @property
    def low_power_seconds(self) -> float | None:
        """How long it has drawn idle power with these processes on it; `None` when it does not."""
        return self._lasting(self.low_power_from)

    @property
    def stalled_seconds(self) -> float | None:
        """How long it has shown full utilisation at idle power; `None` when it does not."""
        if self.full_from is None or self.low_power_from is None:
            return None
        return self.last_at - max(self.full_from, self.low_power_from)

    def _lasting(self, start: float | None) -> float | None:
        # The idle hours before a process came say nothing about the process.
        if start is None:
            return None
        return self.last_at - (start if self.joined_at is None else max(start, self.joined_at))


def max_gap_seconds(interval_seconds: float | None, thresholds: Thresholds) -> float:
    """Return the longest gap between two samples that does not restart the window."""
    intervals = 0.0 if interval_seconds is None else interval_seconds * _GAP_INTERVALS
    return intervals if intervals > thresholds.hole_seconds else thresholds.hole_seconds


def mean_weight(elapsed: float, thresholds: Thresholds) -> float:
    """Return the weight in the mean utilisation of a sample after `elapsed` seconds."""
    return elapsed / (elapsed + MEAN_WINDOWS * thresholds.idle_window_seconds)


def add_sample(
    window: Window | None,
    gpu: Gpu | Instance,
    at: float,
    thresholds: Thresholds,
    parent: Gpu | None = None,
    interval_seconds: float | None = None,
    skew: float = 0.0,
    group: ProcessGroup | None = None,
) -> Window:
    """Return the window with one more sample; an instance comes with its GPU as `parent`.

    `group` is the summary of its processes, where that is known already.
    """
    card = gpu if isinstance(gpu, Gpu) else parent
    if card is None:
        raise TypeError("an instance needs the GPU that it is part of as its parent")
    group = group or summarize_processes(gpu.processes)
    pids, max_gap = group.pids, max_gap_seconds(interval_seconds, thresholds)
    has_left = False
    if window is None:
        pids_changed, joined_at = False, _joined_at(None, gpu.processes, at, skew)
    else:
        # Identity first: a reused summary has the very same set, and comparing sets costs more.
        # A list that cannot be read says nothing: the processes that were in it may still be there.
        pids_changed = pids is not window.pids and pids is not None and pids != window.pids
        if pids_changed and pids is not None:
            has_left = not pids.issuperset(window.pids or ())
        # From `window`, not `before`: a gap in the samples does not make known processes new.
        joined_at = (
            _joined_at(window, gpu.processes, at, skew) if pids_changed else window.joined_at
        )
    # What happened during a long gap is unknown, and after a step back of the clock the runs
    # would have negative lengths: both restart the window.
    continued = window is not None and 0 <= at - window.last_at <= max_gap
    before = window if window is not None and continued else _restarted(window, at)
    load = utilisation(gpu, thresholds, group.desktop)
    if load is None:
        runs = _unmeasured(before, at, max_gap, pids_changed)
        mean, peak = (None, 0.0) if runs[1] is None else (before.mean, before.peak)
    else:
        runs, mean, peak = _measured(before, load, at, thresholds)
    latest_load, measured_at, idle_from, worked_at, full_from = runs
    share = power_share(card) if isinstance(gpu, Gpu) else instance_power_share(card, gpu)
    if pids_changed and group.empty:
        # The last work was done by processes that have ended.
        worked_at = None
    recent: tuple[float, ...] = ()
    level: MemoryLevel = "unknown"
    over = NONE_OVER_THRESHOLD
    # A compute process is judged by its activity alone: the thresholds need not be checked.
    if not group.computes:
        recent = _recent(before, load, measured_at, group, has_left)
        was_over = NONE_OVER_THRESHOLD if has_left else before.over
        level, over = check_thresholds(was_over, gpu, card, group, recent, share, thresholds)
    low_from = None
    if share is not None and share < thresholds.idle_power_fraction:
        low_from = at if before.low_power_from is None else before.low_power_from
    kind = throttle_kind(card.throttle_reasons) if card.throttle_reasons else None
    throttled = before.throttled
    if kind is not None or throttled is not None:
        elapsed = at - before.last_at
        throttled = add_throttle_sample(
            throttled, kind, at, elapsed, thresholds.idle_window_seconds
        )
    idle_users: IdleUsers = before.idle_users if pids is None else ()
    if group.shared and gpu.processes:
        idle_users = track_idle_users(before.idle_users, gpu.processes, at, thresholds)
    fault_kind = None if card.fault is None else card.fault.kind
    modes = card.asleep, card.compute_mode, card.mig_mode
    hardware: HardwareState = _shared_state((fault_kind, *modes, len(card.instances)))
    holder = None if gpu.lease is None else gpu.lease.holder
    changed = ended = window is None or hardware != window.hardware or holder != window.lease_holder
    listed_at = None if pids is None else at
    if window is not None:
        if pids is None:
            pids, listed_at = window.pids, window.listed_at
        elif pids_changed:
            changed, ended = True, ended or has_left
    # In the order of the fields, without names and `*`: this call is half as expensive.
    return Window(
        at,
        before.samples + 1,
        latest_load,
        measured_at,
        idle_from,
        worked_at,
        full_from,
        low_from,
        pids,
        joined_at,
        recent,
        level,
        over,
        hardware,
        changed,
        skew,
        mean,
        peak,
        before.began_at,
        throttled,
        idle_users,
        listed_at,
        ended,
        holder,
    )


_TIMES = (
    "last_at",
    "measured_at",
    "idle_from",
    "worked_at",
    "full_from",
    "low_power_from",
    "joined_at",
    "began_at",
    "listed_at",
)
"""The fields of `Window` that are times by the receiver's clock."""


def shift_window(window: Window, seconds: float) -> Window:
    """Return the window with all times moved, because the receiver's clock was set."""
    times = {name: getattr(window, name) for name in _TIMES}
    moved = {name: at + seconds for name, at in times.items() if at is not None}
    throttled = window.throttled
    return replace(
        window,
        **moved,
        skew=window.skew + seconds,
        throttled=None if throttled is None else shift_throttling(throttled, seconds),
        idle_users=tuple([(user, since + seconds) for user, since in window.idle_users]),
    )


_Runs = tuple[float | None, float | None, float | None, float | None, float | None]
"""`load`, `measured_at`, `idle_from`, `worked_at`, `full_from`."""


def _restarted(window: Window | None, at: float) -> Window:
    """Return an empty window; after a long gap only the last work is carried over."""
    worked_at = None if window is None else window.worked_at
    return Window(at, 0, worked_at=worked_at, began_at=at)


def _measured(
    before: Window, load: float, at: float, thresholds: Thresholds
) -> tuple[_Runs, float, float]:
    """Return the runs with one more reading, the mean utilisation, and the peak of an idle run."""
    # In one function, as it runs for every GPU of every report.
    idle_percent, mean, idle_from = thresholds.idle_percent, before.mean, before.idle_from
    ceiling = MEAN_CEILING * idle_percent
    capped = load if load < ceiling else ceiling
    if mean is None:
        mean = capped
    elif mean != capped:
        mean += (capped - mean) * mean_weight(at - before.last_at, thresholds)
    is_idle = load < idle_percent
    if not is_idle and load < thresholds.noise_percent:
        # A short spike in an idle mean.
        release = 1.0 if idle_from is None else MEAN_RELEASE
        is_idle = mean < release * idle_percent
    if is_idle:
        if idle_from is None:
            return (load, at, at, before.worked_at, None), mean, 0.0
        peak = load if load > before.peak else before.peak
        return (load, at, idle_from, before.worked_at, None), mean, peak
    full_from = None
    if load >= FULL_PERCENT:
        full_from = at if before.full_from is None else before.full_from
    return (load, at, None, at, full_from), mean, 0.0


def _unmeasured(before: Window, at: float, max_gap: float, pids_changed: bool) -> _Runs:
    """Continue the runs over a missed reading, unless readings have been missing for long."""
    measured_at = before.measured_at
    if measured_at is None or at - measured_at > max_gap:
        return None, None, None, before.worked_at, None
    # The last reading was of other processes, but the run that it belongs to continues.
    load = None if pids_changed else before.load
    return load, measured_at, before.idle_from, before.worked_at, before.full_from


def _recent(
    before: Window,
    load: float | None,
    measured_at: float | None,
    group: ProcessGroup,
    has_left: bool,
) -> tuple[float, ...]:
    """Return the last few utilisations; those from before a process left do not count."""
    if has_left:
        return () if load is None or group.empty else (load,)
    if load is None:
        return () if measured_at is None else before.recent
    return (*before.recent[1 - RECENT_SAMPLES :], load)


def _joined_at(
    window: Window | None, processes: tuple[Process, ...] | None, at: float, skew: float
) -> float | None:
    """Return when the youngest process came: its own start, else when it was first seen."""
    if not processes:
        return None
    known_pids = None if window is None else window.pids
    new = [process for process in processes if known_pids is None or process.pid not in known_pids]
    if window is not None and not new:
        return window.joined_at
    starts = [p.started_at + skew for p in new if p.started_at is not None]
    # A start in the future comes from a wrong clock; a few seconds of it are rounding.
    starts = [start for start in starts if start <= at + _CLOCK_TOLERANCE_SECONDS]
    started = min(max(starts), at) if starts else None
    if window is None or known_pids is None:
        return started
    # A process that started before the last sample and was not in it came to this GPU since.
    return started if started is not None and started > window.last_at else at
