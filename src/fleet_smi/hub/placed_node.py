"""One node in columns: how it is copied to its place, and how its standings follow from there."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise, starmap
from math import inf, nan
from typing import Any

import numpy as np

from fleet_smi.fleet.node_columns import ReportLink
from fleet_smi.fleet.node_sample import NodeSample
from fleet_smi.hub.figure_columns import FIGURES_READ, GPU_POSITIONS, HOST_POSITIONS, FigureColumns
from fleet_smi.hub.packed_batch import Numbers, Positions
from fleet_smi.hub.packed_layouts import PackedLayout
from fleet_smi.hub.steady_columns import BUSY, CHANGES, MEAN, MEMORY, SLOWED, THROTTLE
from fleet_smi.model.snapshot import Gpu
from fleet_smi.model.snapshot_figures import HostFigures
from fleet_smi.model.throttle_reasons import throttle_bits, throttle_reasons
from fleet_smi.model.units import GIB
from fleet_smi.model.verdict.live_standing import LiveStanding
from fleet_smi.model.verdict.readings import total_memory
from fleet_smi.model.verdict.thresholds import Thresholds

_READERS: dict[int, Callable[[int], Any]] = {
    MEMORY: int,
    FIGURES_READ.index("sm_clock_mhz"): int,
    THROTTLE: throttle_reasons,
}
"""Conversions of the columns whose values are not floats."""
_BROUGHT = [BUSY, *range(MEAN, CHANGES + 1)]


class PlacedNode:
    """The place of one node, whose standings are brought up to date later (`NodeColumns`).

    `layout` is that of its last packed report, whose columns the next one needs to have too. `uses`
    is what that said of its processes, with its number. `counts` are those of its processes and
    collectors.
    """

    __slots__ = (
        "_columns",
        "_counts",
        "_processes",
        "is_outdated",
        "layout",
        "place",
        "uses",
    )

    def __init__(self, columns: FigureColumns) -> None:
        self._columns = columns
        self.place = columns.take_place()
        self.is_outdated = True
        self.layout: PackedLayout | None = None
        self.uses: tuple[int, tuple[bytes, ...]] | None = None
        self._counts = 0, 0
        self._processes: list[slice] = []

    def __del__(self) -> None:
        self._columns.release_place(self.place)

    @property
    def columns(self) -> FigureColumns:
        """The columns that it has a place in."""
        return self._columns

    @property
    def gpu_count(self) -> int:
        """The number of its GPUs."""
        return self._columns.gpu_count

    @property
    def ahead(self) -> int:
        """How many samples since the standings were brought up to date, of any GPU at most."""
        return int(self._columns.ahead[self.place].max())

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
        self.set_gpus(range(self.gpu_count), live, sample, at, thresholds)
        columns.hosts[place] = [_or(figures.host[position], nan) for position in HOST_POSITIONS]
        columns.times[place] = at, link.gap_seconds
        columns.numbers[place] = sample.sequence, link.run
        ends = accumulate([len(gpu.processes or ()) for gpu in sample.base.gpus], initial=0)
        self._processes = list(starmap(slice, pairwise(ends)))
        self._counts = len(figures.processes[0]), len(figures.run_seconds)
        self.layout, self.is_outdated = None, False

    def set_gpus(
        self,
        positions: Sequence[int],
        live: Sequence[LiveStanding],
        sample: NodeSample,
        at: float,
        thresholds: Thresholds,
    ) -> None:
        """Copy the GPUs at these positions after a sample that was judged at `at`."""
        columns, place, figures = self._columns, self.place, sample.figures.gpus
        read, limits, gpus = (
            [figures[position] for position in GPU_POSITIONS],
            sample.limits.gpus,
            sample.base.gpus,
        )
        rows = [
            (
                *_readings([column[position] for column in read]),
                *_state(live[position]),
                _or(limits[position], inf),
                *_limits(live[position], at),
                *_mark(live[position], gpus[position], thresholds),
            )
            for position in positions
        ]
        columns.gpus[:, place, positions] = np.array(rows).T
        columns.ahead[place, positions] = 0

    def changed_uses(self, uses: tuple[bytes, ...]) -> list[int] | None:
        """Return the GPUs whose processes are used otherwise; `None` if that is not known."""
        if self.uses is None:
            return None
        _, before = self.uses
        count = self._counts[0]
        if not count or [*map(len, before)] != [*map(len, uses)]:
            return None
        changed = set[int]()
        for old, new in zip(before, uses, strict=True):
            width = len(new) // count
            changed.update(
                position
                for position, own in enumerate(self._processes)
                if old[width * own.start : width * own.stop]
                != new[width * own.start : width * own.stop]
            )
        return sorted(changed)

    def accepts(self, layout: PackedLayout) -> bool:
        """Return whether the next report may have this layout, and expect the same then."""
        processes, runs = self._counts
        if layout.process_count not in (None, processes) or layout.run_count not in (None, runs):
            return False
        if self.layout is not None and self.layout.sent & ~layout.sent:
            return False
        self.layout = layout
        return True

    def column(self, position: int) -> list[Any]:
        """Return one of the figures that are here, by its position among those of a GPU."""
        column = GPU_POSITIONS.index(position)
        values = self._columns.gpus[column, self.place].tolist()
        read = _READERS.get(column)
        if read is None:
            return [None if value != value else value for value in values]
        return [None if value != value else read(int(value)) for value in values]

    def packed_rows(self, positions: tuple[int, ...]) -> bytes:
        """Return some of these figures, GPU by GPU, as four-byte floats; NaN is not measured."""
        values: Numbers = self._columns.gpus[_columns_at(positions), self.place]
        return values.T.astype(np.float32).tobytes()

    @property
    def host(self) -> HostFigures:
        """The figures of the host that are here; NaN is not measured."""
        cpu_percent, memory_bytes = self._columns.hosts[self.place].tolist()
        return HostFigures(cpu_percent=cpu_percent, memory_used_bytes=memory_bytes)

    def bring_up_to_date(self, live: Sequence[LiveStanding]) -> float:
        """Set in the standings what steady reports have changed; return when the last was taken."""
        columns, place = self._columns, self.place
        at = float(columns.times[place, 0])
        loads, *states = columns.gpus[_BROUGHT, place].tolist()
        rows = zip(live, columns.ahead[place].tolist(), loads, *states, strict=True)
        for one, ahead, load, *state in rows:
            if not ahead:
                continue  # it was judged otherwise
            one.last_at, one.load = at, load
            one.steady_samples += ahead
            mean, idle_from, worked_at, full_from, low_power_from, peak, changes = state
            one.mean, one.peak, one.changes = mean, peak, int(changes)
            one.idle_from = None if idle_from != idle_from else idle_from
            one.worked_at = None if worked_at != worked_at else worked_at
            one.full_from = None if full_from != full_from else full_from
            one.low_power_from = None if low_power_from != low_power_from else low_power_from
        columns.ahead[place] = 0
        return at


@lru_cache(maxsize=16)
def _columns_at(positions: tuple[int, ...]) -> Positions:
    return np.array([GPU_POSITIONS.index(position) for position in positions])


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
