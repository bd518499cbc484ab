"""Figures and standings of many nodes in arrays: what decides whether a sample is steady.

A node whose packed reports are steady (`model/verdict/live_standing.py`) is judged here, together
with all others that reported at about the same time. Its objects are brought up to date when
somebody reads them. Any other report is judged there, after which its node is copied here again.
"""

from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleet_smi.hub.packed_batch import Flags, Numbers, PackedBatch, Positions, ReadColumns
from fleet_smi.hub.packed_layouts import LayoutTable, enlarged
from fleet_smi.hub.steady_columns import (
    CHANGES,
    COLUMN_COUNT,
    FIGURE_COUNT,
    FULL_FROM,
    HAS_MARK,
    HELD,
    LOW_POWER_FROM,
    MEMORY,
    MEMORY_LIMIT,
    MOVING_COUNT,
    NOTED_BEYOND,
    judge_steady,
)
from fleet_smi.model.snapshot_figures import GPU_FIELDS, HOST_FIELDS
from fleet_smi.model.verdict.thresholds import Thresholds
from fleet_smi.model.verdict.window import MEAN_WINDOWS
from fleet_smi.wire.packed_layout import GPUS_AT

FIGURES_READ = (
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
GPU_POSITIONS = [GPU_FIELDS.index(field) for field in FIGURES_READ]
HOST_POSITIONS = [HOST_FIELDS.index(field) for field in _READ_HOST]
_PACKED = [*[GPUS_AT + position for position in GPU_POSITIONS], *HOST_POSITIONS]

_FIRST_SIZE = 16


class FigureColumns:
    """The nodes that have a certain number of GPUs, each at its place.

    `gpus[column]` has for each node a row of its GPUs; `hosts` has two figures of the node; `times`
    when its latest report was taken, and how much later the next may come; `numbers` the number of
    that report, and the checksum of its run; `ahead` counts for each of its GPUs the samples since
    its standing was brought up to date.
    """

    def __init__(self, gpu_count: int) -> None:
        self.gpu_count = gpu_count
        self.gpus: Numbers = np.empty((COLUMN_COUNT, 0, gpu_count))
        self.hosts: Numbers = np.empty((0, len(_READ_HOST)))
        self.times: Numbers = np.empty((0, 2))
        self.numbers: NDArray[np.int64] = np.empty((0, 2), np.int64)
        self.ahead: NDArray[np.int64] = np.empty((0, gpu_count), np.int64)
        self.layouts = LayoutTable(gpu_count, _PACKED)
        counts = [*[gpu_count] * FIGURE_COUNT, *[1] * len(_READ_HOST)]
        self._read_columns = ReadColumns(_PACKED, counts)
        self._free: list[int] = []

    def _grow(self) -> None:
        before = len(self.times)
        size = max(_FIRST_SIZE, 2 * before)
        gpus = np.zeros((COLUMN_COUNT, size, self.gpu_count))
        gpus[:, :before] = self.gpus
        self.gpus, self.hosts = gpus, enlarged(self.hosts, size)
        self.times, self.numbers = enlarged(self.times, size), enlarged(self.numbers, size)
        self.ahead = enlarged(self.ahead, size)
        self._free += range(size - 1, before - 1, -1)

    def take_place(self) -> int:
        """Return a place for one more node."""
        if not self._free:
            self._grow()
        return self._free.pop()

    def release_place(self, place: int) -> None:
        """Let another node have a place."""
        self._free.append(place)

    def judge(
        self, places: Positions, batch: PackedBatch, ages: Numbers, now: float, limits: Thresholds
    ) -> "JudgedBatch":
        """Judge the next samples of the nodes at these places, each at most once."""
        gpus, hosts = self.gpus.take(places, axis=1), self.hosts[places]
        before_at, max_gap = self.times[places].T
        sequence, run = self.numbers[places].T
        at = now - ages
        elapsed = at - before_at
        is_next: Flags = (
            batch.valid
            & (batch.base == sequence)
            & (batch.run == run)
            & (batch.sequence > sequence)
            & (elapsed >= 0.0)
            & (elapsed <= max_gap)
        )
        count, gpu_count = len(places), self.gpu_count
        before = np.concatenate(
            (gpus[:FIGURE_COUNT].transpose(1, 0, 2).reshape(count, -1), hosts), axis=1
        )
        values = batch.read(self._read_columns, before)
        figures = values[:, : FIGURE_COUNT * gpu_count].reshape(count, FIGURE_COUNT, gpu_count)
        gpus[:FIGURE_COUNT] = figures.transpose(1, 0, 2)
        # In a full report it becomes unknown.
        is_next &= ~(gpus[MEMORY] > gpus[MEMORY_LIMIT]).any(axis=1)
        weights = elapsed / (elapsed + MEAN_WINDOWS * limits.idle_window_seconds)
        steady = judge_steady(gpus, at[:, None], weights[:, None], limits)
        hosts = values[:, FIGURE_COUNT * gpu_count :]
        return JudgedBatch(places, batch.sequence, gpus, hosts, at, is_next, steady)

    def apply(self, judged: "JudgedBatch") -> None:
        """Apply what was judged of the reports that are the next of their nodes.

        Of GPUs whose samples are not steady only the figures are.
        """
        places, sequence, gpus, hosts, at, is_next, steady = judged
        if not is_next.all():
            places, sequence, hosts = places[is_next], sequence[is_next], hosts[is_next]
            gpus, at, steady = gpus[:, is_next], at[is_next], steady[is_next]
        if not steady.all():
            old = self.gpus[FIGURE_COUNT:MOVING_COUNT, places]
            np.copyto(gpus[FIGURE_COUNT:MOVING_COUNT], old, where=~steady)
        self.gpus[:MOVING_COUNT, places] = gpus[:MOVING_COUNT]
        self.hosts[places] = hosts
        self.times[places, 0], self.numbers[places, 0] = at, sequence
        self.ahead[places] += steady

    def marks(self, places: Positions) -> Numbers:
        """Return for the GPUs of these nodes what `LiveStanding.mark` does; NaN is `None`."""
        full_from, low_power_from, changes, memory, held, noted_beyond, has_mark = self.gpus[
            _MARK_COLUMNS, places[:, None]
        ].transpose(1, 0, 2)
        may_stall = (full_from == full_from) & (low_power_from == low_power_from)
        is_noted = memory - held > noted_beyond
        is_marked = (has_mark != 0.0) & ~may_stall
        return np.where(is_marked, np.where(is_noted, -changes, changes), nan)


class JudgedBatch(NamedTuple):
    """The result of judging a batch: the reports that continue those of the nodes at these places.

    `steady` has for each node its GPUs whose samples are. `gpus` and `hosts` are the columns as
    they then are, `at` is when each was taken.
    """

    places: Positions
    sequence: NDArray[np.int64]
    gpus: Numbers
    hosts: Numbers
    at: Numbers
    is_next: Flags
    steady: Flags


_MARK_COLUMNS = [FULL_FROM, LOW_POWER_FROM, CHANGES, MEMORY, HELD, NOTED_BEYOND, HAS_MARK]
