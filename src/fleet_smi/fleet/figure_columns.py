"""Figures and standings of many nodes in arrays: what decides whether a sample is steady.

A node whose packed reports are steady (`model/verdict/live_standing.py`) is judged here, together
with all others that reported at about the same time. Its objects are brought up to date when
somebody reads them. Any other report is judged there, after which its node is copied here again.
"""

from collections.abc import Callable, Sequence
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleet_smi.fleet.node_sample import NodeSample
from fleet_smi.fleet.packed_batch import Flags, Numbers, PackedBatch, Positions
from fleet_smi.fleet.steady_columns import (
    BUSY,
    CHANGES,
    COLUMN_COUNT,
    FULL_FROM,
    HAS_MARK,
    HELD,
    LOW_POWER_FROM,
    MEAN,
    MEMORY,
    NOTED_BEYOND,
    SLOWED,
    THROTTLE,
    judge_steady,
)
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.snapshot_figures import GPU_FIELDS, HOST_FIELDS, HostFigures
from fleet_smi.model.throttle_reasons import throttle_bits, throttle_reasons
from fleet_smi.model.units import GIB
from fleet_smi.model.verdict.live_standing import LiveStanding
from fleet_smi.model.verdict.readings import total_memory
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.window import (
    MEAN_WINDOWS,
)
from fleet_smi.wire.packed_layout import GPUS_AT

_READ = (
    "busy_percent",
    "encoder_percent",
    "decoder_percent",
    "memory_used_bytes",
    "temperature_celsius",
    "power_watts",
    "throttle_reasons",
    # Not for judging, but for the history.
    "sm_clock_mhz",
    "memory_temperature_celsius",
    "energy_joules",
)
_READ_HOST = ("cpu_percent", "memory_used_bytes")
_GPU_POSITIONS = [GPU_FIELDS.index(field) for field in _READ]
_HOST_POSITIONS = [HOST_FIELDS.index(field) for field in _READ_HOST]
_PACKED_GPU: Positions = np.array([GPUS_AT + position for position in _GPU_POSITIONS])
_PACKED_HOST: Positions = np.array(_HOST_POSITIONS)

_CHANGED = slice(MEAN, CHANGES + 1)

_READERS: dict[int, Callable[[int], Any]] = {
    MEMORY: int,
    _READ.index("sm_clock_mhz"): int,
    THROTTLE: throttle_reasons,
}
"""Conversions of the columns whose values are not floats."""
_FIRST_SIZE = 16


def enlarged(array: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a copy with room for more."""
    new = np.zeros((size, *array.shape[1:]), array.dtype)
    new[: len(array)] = array
    return new


class FigureColumns:
    """The nodes that have a certain number of GPUs, each at its place.

    `gpus` has for each node its GPUs and for each of these the columns; `hosts` two figures of the
    node; `times` when its latest report was taken, and how much later the next may come; `numbers`
    the number of that report, the checksum of its run, and the columns that it had if it was
    packed, which the next one needs to have too.
    """

    def __init__(self, gpu_count: int) -> None:
        self.gpu_count = gpu_count
        self.gpus: Numbers = np.empty((0, gpu_count, COLUMN_COUNT))
        self.hosts: Numbers = np.empty((0, len(_READ_HOST)))
        self.times: Numbers = np.empty((0, 2))
        self.numbers: NDArray[np.int64] = np.empty((0, 3), np.int64)
        self._free: list[int] = []

    def _grow(self) -> None:
        before = len(self.gpus)
        size = max(_FIRST_SIZE, 2 * before)
        self.gpus, self.hosts = enlarged(self.gpus, size), enlarged(self.hosts, size)
        self.times, self.numbers = enlarged(self.times, size), enlarged(self.numbers, size)
        self._free += range(size - 1, before - 1, -1)

    def take_place(self) -> int:
        """Return a place for one more node."""
        if not self._free:
            self._grow()
        return self._free.pop()

    def release_place(self, place: int) -> None:
        """Let another node have a place."""
        self._free.append(place)

    def apply(
        self, places: Positions, batch: PackedBatch, ages: Numbers, now: float, limits: Thresholds
    ) -> tuple[Flags, Numbers]:
        """Apply the reports that are steady; return which are, and when each was taken.

        The places are those of their nodes, each at most once.
        """
        gpus, hosts = self.gpus[places], self.hosts[places]
        before_at, max_gap = self.times[places].T
        sequence, run, sent = self.numbers[places].T
        at = now - ages
        elapsed = at - before_at
        is_next = (
            batch.valid
            & batch.has_gpus(self.gpu_count)
            & (batch.base == sequence)
            & (batch.run == run)
            & (batch.sequence > sequence)
            & (sent & ~batch.sent == 0)
            & (elapsed >= 0.0)
            & (elapsed <= max_gap)
        )
        batch.write(gpus, _PACKED_GPU, self.gpu_count)
        batch.write(hosts[:, None], _PACKED_HOST, 1)
        weights = elapsed / (elapsed + MEAN_WINDOWS * limits.idle_window_seconds)
        steady = is_next & judge_steady(gpus, at[:, None], weights[:, None], limits)
        chosen = places[steady]
        self.gpus[chosen], self.hosts[chosen] = gpus[steady], hosts[steady]
        self.times[chosen, 0] = at[steady]
        self.numbers[chosen, 0], self.numbers[chosen, 2] = (
            batch.sequence[steady],
            batch.sent[steady],
        )
        return steady, at

    def marks(self, places: Positions) -> Numbers:
        """Return for the GPUs of these nodes what `LiveStanding.mark` does; NaN is `None`."""
        gpus = self.gpus[places]
        full_from, low_power_from = gpus[..., FULL_FROM], gpus[..., LOW_POWER_FROM]
        changes = gpus[..., CHANGES]
        may_stall = (full_from == full_from) & (low_power_from == low_power_from)
        is_noted = gpus[..., MEMORY] - gpus[..., HELD] > gpus[..., NOTED_BEYOND]
        has_mark = (gpus[..., HAS_MARK] != 0.0) & ~may_stall
        return np.where(has_mark, np.where(is_noted, -changes, changes), nan)


class ReportLink(NamedTuple):
    """The checksum of a node's run, and how much later its next report may come."""

    run: int
    gap_seconds: float


class NodeColumns:
    """The place of one node, whose standings are `live`.

    `ahead` counts the reports since these were brought up to date. Where they were judged
    otherwise since, this `is_outdated` until it is set again. `uses` is what its last packed report
    said of its processes, with the number of that report.
    """

    __slots__ = ("_columns", "ahead", "is_outdated", "place", "uses")

    def __init__(self, columns: FigureColumns) -> None:
        self._columns = columns
        self.place = columns.take_place()
        self.ahead = 0
        self.is_outdated = True
        self.uses: tuple[int, tuple[bytes, ...]] | None = None

    def __del__(self) -> None:
        self._columns.release_place(self.place)

    @property
    def columns(self) -> FigureColumns:
        """The columns that it has a place in."""
        return self._columns

    def set(
        self,
        live: Sequence[LiveStanding],
        sample: NodeSample,
        at: float,
        link: ReportLink,
        thresholds: Thresholds,
    ) -> None:
        """Copy a node after a sample that was judged at `at`."""
        columns, place, figures = self._columns, self.place, sample.figures
        rows = zip(*[figures.gpus[position] for position in _GPU_POSITIONS], strict=True)
        columns.gpus[place] = [
            (
                *_readings(row),
                _or(limit, inf),
                *_limits(one, at),
                *_mark(one, gpu, thresholds),
                *_state(one),
            )
            for one, gpu, row, limit in zip(
                live, sample.base.gpus, rows, sample.limits.gpus, strict=True
            )
        ]
        columns.hosts[place] = [_or(figures.host[position], nan) for position in _HOST_POSITIONS]
        columns.times[place] = at, link.gap_seconds
        columns.numbers[place] = sample.sequence, link.run, 0
        self.ahead, self.is_outdated = 0, False

    def column(self, position: int) -> list[Any]:
        """Return one of the figures that are here, by its position among those of a GPU."""
        column = _GPU_POSITIONS.index(position)
        values = self._columns.gpus[self.place, :, column].tolist()
        read = _READERS.get(column)
        if read is None:
            return [None if value != value else value for value in values]
        return [None if value != value else read(int(value)) for value in values]

    def rows(self, positions: Sequence[int]) -> list[float]:
        """Return some of the figures that are here, GPU by GPU; NaN is not measured."""
        columns = [_GPU_POSITIONS.index(position) for position in positions]
        values: list[float] = self._columns.gpus[self.place][:, columns].ravel().tolist()
        return values

    @property
    def host(self) -> HostFigures:
        """The figures of the host that are here; NaN is not measured."""
        cpu_percent, memory_bytes = self._columns.hosts[self.place].tolist()
        return HostFigures(cpu_percent=cpu_percent, memory_used_bytes=memory_bytes)

    def bring_up_to_date(self, live: Sequence[LiveStanding]) -> None:
        """Set in the standings what steady reports have changed."""
        if not self.ahead:
            return
        columns, place = self._columns, self.place
        at, rows = float(columns.times[place, 0]), columns.gpus[place]
        for one, load, state in zip(
            live, rows[:, BUSY].tolist(), rows[:, _CHANGED].tolist(), strict=True
        ):
            one.last_at, one.load = at, load
            one.steady_samples += self.ahead
            mean, idle_from, worked_at, full_from, low_power_from, peak, changes = state
            one.mean, one.peak, one.changes = mean, peak, int(changes)
            one.idle_from = None if idle_from != idle_from else idle_from
            one.worked_at = None if worked_at != worked_at else worked_at
            one.full_from = None if full_from != full_from else full_from
            one.low_power_from = None if low_power_from != low_power_from else low_power_from
        self.ahead = 0


def _readings(row: Sequence[Any]) -> list[float]:
    numbers, reasons = [*row], row[THROTTLE]
    if reasons is not None:
        # Reasons without a number: they are never steady.
        numbers[THROTTLE] = _or(throttle_bits(reasons), SLOWED)
    return [_or(number, nan) for number in numbers]


def _limits(live: LiveStanding, at: float) -> tuple[float, ...]:
    limits, judged = live.limits, live.judged
    over, group = judged.window.over, judged.group
    is_shared = group.computes and group.shared  # each sample is judged by its processes
    return (
        -inf if is_shared or live.last_at != at else limits.until,
        limits.may_turn_idle,
        group.computes,
        _or(limits.least_memory, nan),
        limits.most_memory,
        limits.power_threshold,
        _or(limits.limit_watts, nan),
        over.power,
        live.is_quiet and not over.load,
    )


def _mark(live: LiveStanding, gpu: Gpu, thresholds: Thresholds) -> tuple[float, ...]:
    group = live.judged.group
    held = group.memory_bytes if group.has_members else None
    ceiling = thresholds.memory_ceiling(total_memory(gpu))
    return not (live.idle_users or group.desktop), _or(held, nan), max(GIB, ceiling)


def _state(live: LiveStanding) -> tuple[float, ...]:
    return (
        _or(live.mean, nan),
        _or(live.idle_from, nan),
        _or(live.worked_at, nan),
        _or(live.full_from, nan),
        _or(live.low_power_from, nan),
        live.peak,
        live.changes,
    )


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value
