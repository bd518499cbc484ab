"""The samples of one node as rows of every grain, each joined to rows of the next."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

import numpy as np

from fleet_smi.hub.history.series.buffer import SampleBuffer, SampleSpan, sample_formats
from fleet_smi.hub.history.series.codec import (
    GRAINS,
    MAX_ROW_SECONDS,
    MEMORY_COLUMNS,
    SeriesArrays,
    all_uuids,
    bin_samples,
    decode_rows,
    drop_unknown,
    pack,
    resample,
    row_end,
    slice_row,
    slice_row_at,
)
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.model.units import GIB

_FINE, _MIDDLE, _COARSE, _LONG = GRAINS
_AT_ONCE = 8  # of more the numbers would not fit into the processor's caches
_Packed = tuple[int, int, bytes]
"""The grain, when the first begins, and one row or several."""


def min_rollup_seconds(interval_seconds: float) -> int:
    """The seconds of the shortest stretch that is made rows, of what is told at that pace.

    Of a sample that holds for long, finer rows would all say the same.
    """
    return _COARSE if interval_seconds >= _COARSE else _MIDDLE


class RollupTask(NamedTuple):
    """What was gathered by `end` is to be made rows, by who has those that go on."""

    rollup: "Rollup"
    buffer: SampleBuffer
    end: float
    interval_seconds: float = 0.0


class _Taken(NamedTuple):
    rollup: "Rollup"
    uuids: tuple[str, ...]
    stretch: SampleSpan
    end: float


class Rollup:
    """Has the rows of one node that longer ones are to be made of.

    `_minutes` are of this quarter of an hour, and `_quarters` of this eighth of a day.
    """

    __slots__ = ("_minutes", "_node_id", "_quarters")

    def __init__(self, node_id: str, rows: Iterable[SeriesRow] = (), since: float = 0.0) -> None:
        """Go on from rows that were done before, up to those that are made of what is `since`."""
        self._node_id = node_id
        minute, quarter, eighth = (since // grain * grain for grain in (_MIDDLE, _COARSE, _LONG))
        told = list(rows)
        self._minutes = _single(told, _MIDDLE, quarter, minute)
        self._quarters = _single(told, _COARSE, eighth, quarter)

    def add_packed(self, packed: Iterable[_Packed], uuids: tuple[str, ...]) -> list[SeriesRow]:
        """Let more be in the rows that go on; those that are done."""
        rows = self._rows(packed, uuids)
        self._minutes += [row for row in rows if row.grain_seconds >= _MIDDLE]
        return [row for row in rows if row.grain_seconds < _COARSE]

    def finish(self, end: float) -> list[SeriesRow]:
        """The longer rows that are done by `end`."""
        quarters, self._minutes = self._parted(self._minutes, _COARSE, end)
        self._quarters += quarters
        eighths, self._quarters = self._parted(self._quarters, _LONG, end)
        return quarters + eighths

    def partial_rows(
        self, buffer: SampleBuffer, end: float, interval_seconds: float = 0.0
    ) -> list[SeriesRow]:
        """The rows of every grain that go on, as they are at `end`."""
        whole, uuids, rows = min_rollup_seconds(interval_seconds), buffer.uuids, list[SeriesRow]()
        if buffer.since < end:
            (packed,) = _made([buffer.peek_until(end, whole)], len(uuids), whole)
            rows = self._rows(packed, uuids)
        minutes = [row for row in rows if row.grain_seconds >= _MIDDLE]
        quarters = self._longer([*self._minutes, *minutes], _COARSE)
        eighths = self._longer([*self._quarters, *quarters], _LONG)
        return [row for row in rows if row.grain_seconds < _COARSE] + quarters + eighths

    def row_at(self, buffer: SampleBuffer, at: float) -> SeriesRow | None:
        """A row of the figures that hold at a moment, where they are gathered still."""
        stretch = buffer.span_at(at, _FINE)
        if stretch is None:
            return None
        (packed,) = _made([stretch], len(buffer.uuids), _MIDDLE)
        return self._rows(packed, buffer.uuids)[0]

    def _parted(
        self, rows: list[SeriesRow], grain: int, end: float
    ) -> tuple[list[SeriesRow], list[SeriesRow]]:
        """The longer rows that are done, and what others will be made of."""
        until = end // grain * grain
        if not rows or rows[0].start >= until:
            return [], rows
        before = [part for row in rows if (part := slice_row(row, -inf, until)) is not None]
        after = [part for row in rows if (part := slice_row(row, until, inf)) is not None]
        return self._longer(before, grain), after

    def _longer(self, rows: Sequence[SeriesRow], grain: int) -> list[SeriesRow]:
        """Rows joined to longer ones; there is a place for each GPU."""
        if not rows:
            return []
        uuids = all_uuids(rows)
        joined = drop_unknown(resample(decode_rows(rows, uuids), grain))
        starts = map(int, joined.starts.tolist())
        packed = [(grain, *one) for one in zip(starts, pack(joined), strict=True)]
        return self._rows(packed, uuids)

    def _rows(self, packed: Iterable[_Packed], uuids: tuple[str, ...]) -> list[SeriesRow]:
        return [
            SeriesRow(
                grain_seconds=grain, node_id=self._node_id, start=start, uuids=uuids, data=data
            )
            for grain, start, data in packed
        ]


def roll_up(tasks: Iterable[RollupTask]) -> list[SeriesRow]:
    """All rows that are done, of many nodes at once."""
    rows, alike = list[SeriesRow](), defaultdict[tuple[int, int], list[_Taken]](list)
    for rollup, gathering, end, pace_seconds in tasks:
        whole, uuids = min_rollup_seconds(pace_seconds), gathering.uuids
        until = end // whole * whole
        if gathering.since < until:
            stretch = gathering.take_until(until, whole)
            alike[len(uuids), whole].append(_Taken(rollup, uuids, stretch, end))
        else:
            rows += rollup.finish(end)
    for (gpus, whole), taken in alike.items():
        for first in range(0, len(taken), _AT_ONCE):
            some = taken[first : first + _AT_ONCE]
            made = _made([one.stretch for one in some], gpus, whole)
            for (rollup, uuids, _, end), packed in zip(some, made, strict=True):
                rows += rollup.add_packed(packed, uuids)
                rows += rollup.finish(end)
    return rows


def _made(stretches: Sequence[SampleSpan], gpus: int, whole: int) -> list[list[_Packed]]:
    """Rows of stretches of whole minutes or longer, laid end to end to be worked out at once."""
    samples = np.frombuffer(b"".join([one.packed for one in stretches]), sample_formats(gpus)[1])
    figures = samples["figures"].astype(np.float32)
    figures[:, MEMORY_COLUMNS] /= GIB
    ends = list(accumulate([one.end - one.start for one in stretches]))
    shifts = [end - one.end for one, end in zip(stretches, ends, strict=True)]
    counts = [len(one.packed) // samples.itemsize for one in stretches]
    times = samples["at"] + np.repeat(shifts, counts)
    if whole == _COARSE:
        return _packed({_COARSE: bin_samples(times, figures, ends[-1], _COARSE)}, ends, shifts)
    grains = bin_samples(times, figures, ends[-1], _FINE)
    return _packed({_FINE: grains, _MIDDLE: resample(grains, _MIDDLE)}, ends, shifts)


def _packed(
    rows: dict[int, SeriesArrays], ends: Sequence[float], shifts: Sequence[float]
) -> list[list[_Packed]]:
    """What belongs to each stretch, at its own time again."""
    packed: list[list[_Packed]] = [[] for _ in ends]
    for grain, of_grain in rows.items():
        data, first, together = pack(of_grain), 0, max(1, MAX_ROW_SECONDS // grain)
        starts, lasts = of_grain.starts.tolist(), of_grain.starts.searchsorted(ends).tolist()
        for one, shift, last in zip(packed, shifts, lasts, strict=True):
            for place in range(first, last, together):
                joined = b"".join(data[place : min(place + together, last)])
                one.append((grain, int(starts[place] - shift), joined))
            first = last
    return packed


def _single(rows: Iterable[SeriesRow], grain: int, start: float, end: float) -> list[SeriesRow]:
    """Each grain of these rows in that time of which anything is known; the last that tells."""
    found: dict[float, SeriesRow] = {}
    for row in rows:
        if row.grain_seconds == grain:
            for at in range(max(row.start, int(start)), min(row_end(row), int(end)), grain):
                if (one := slice_row_at(row, at)) is not None:
                    found[at] = one
    return [found[at] for at in sorted(found)]
