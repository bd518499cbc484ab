"""Rollup: buffered samples of a node into rows of fine grains, and those into coarser rows."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf
from typing import NamedTuple

import numpy as np

from fleet_smi.hub.history.series.buffer import SampleBuffer, SampleSpan
from fleet_smi.hub.history.series.codec import (
    GRAINS,
    MAX_ROW_SECONDS,
    Float64Array,
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
from fleet_smi.hub.history.series.sample_format import sample_format
from fleet_smi.hub.history.series.series_row import SeriesRow

_FINE, _MIDDLE, _COARSE, _LONG = GRAINS
_NODES_PER_BATCH = 8  # the arrays of more nodes would not fit into the processor's caches
_PackedRow = tuple[int, int, bytes]
"""The grain, the start of the first one, and the data of one or several consecutive grains."""


def min_rollup_seconds(interval_seconds: float) -> int:
    """The shortest time that is rolled up, for a node that reports at this interval.

    Where a sample holds for long, finer rows would only repeat it.
    """
    return _COARSE if interval_seconds >= _COARSE else _MIDDLE


class RollupTask(NamedTuple):
    """Roll up the buffered samples of one node, up to `end`."""

    rollup: "Rollup"
    buffer: SampleBuffer
    end: float
    interval_seconds: float = 0.0


class RollupFailure(NamedTuple):
    """A node whose samples could not be rolled up."""

    node_id: str
    error: Exception


class _TakenSpan(NamedTuple):
    rollup: "Rollup"
    uuids: tuple[str, ...]
    span: SampleSpan
    end: float


class Rollup:
    """The rows of one node from which its next coarser rows are made.

    `_minutes` are those of the current 15 minutes, and `_quarters` of the current 3 hours.
    """

    __slots__ = ("_minutes", "_quarters", "node_id")

    def __init__(self, node_id: str, rows: Iterable[SeriesRow] = (), since: float = 0.0) -> None:
        """Resume from stored `rows`; samples from `since` on have not been rolled up."""
        self.node_id = node_id
        minute, quarter, eighth = (since // grain * grain for grain in (_MIDDLE, _COARSE, _LONG))
        stored = list(rows)
        self._minutes = _single_grains(stored, _MIDDLE, quarter, minute)
        self._quarters = _single_grains(stored, _COARSE, eighth, quarter)

    def add_packed(self, packed: Iterable[_PackedRow], uuids: tuple[str, ...]) -> list[SeriesRow]:
        """Take rows for the next coarser grain; return those that are finished."""
        # Coarse rows, of a node that reports rarely, are returned by `finish` when complete.
        rows = self._rows(packed, uuids)
        self._minutes += [row for row in rows if row.grain_seconds >= _MIDDLE]
        return [row for row in rows if row.grain_seconds < _COARSE]

    def finish(self, end: float) -> list[SeriesRow]:
        """Return the coarser rows that are complete by `end`."""
        quarters, self._minutes = self._join_complete(self._minutes, _COARSE, end)
        self._quarters += quarters
        eighths, self._quarters = self._join_complete(self._quarters, _LONG, end)
        return quarters + eighths

    def partial_rows(
        self, buffer: SampleBuffer, end: float, interval_seconds: float = 0.0
    ) -> list[SeriesRow]:
        """The unfinished rows of every grain, as of `end`."""
        grain, uuids, rows = min_rollup_seconds(interval_seconds), buffer.uuids, list[SeriesRow]()
        if buffer.since < end:
            (packed,) = _pack_spans([buffer.peek_until(end, grain)], len(uuids), grain)
            rows = self._rows(packed, uuids)
        minutes = [row for row in rows if row.grain_seconds >= _MIDDLE]
        quarters = self._join([*self._minutes, *minutes], _COARSE)
        eighths = self._join([*self._quarters, *quarters], _LONG)
        return [row for row in rows if row.grain_seconds < _COARSE] + quarters + eighths

    def row_at(self, buffer: SampleBuffer, at: float) -> SeriesRow | None:
        """The figures that hold at a time as a row, where they are still buffered."""
        span = buffer.span_at(at, _FINE)
        if span is None:
            return None
        (packed,) = _pack_spans([span], len(buffer.uuids), _MIDDLE)
        return self._rows(packed, buffer.uuids)[0]

    def _join_complete(
        self, rows: list[SeriesRow], grain: int, end: float
    ) -> tuple[list[SeriesRow], list[SeriesRow]]:
        """The coarser rows that are complete by `end`, and the rows left for later ones."""
        until = end // grain * grain
        if not rows or rows[0].start >= until:
            return [], rows
        before = [part for row in rows if (part := slice_row(row, -inf, until)) is not None]
        after = [part for row in rows if (part := slice_row(row, until, inf)) is not None]
        return self._join(before, grain), after

    def _join(self, rows: Sequence[SeriesRow], grain: int) -> list[SeriesRow]:
        """Join rows to coarser ones, with columns for every GPU that occurs in them."""
        if not rows:
            return []
        uuids = all_uuids(rows)
        joined = drop_unknown(resample(decode_rows(rows, uuids), grain))
        starts = map(int, joined.starts.tolist())
        data = pack(joined, len(uuids))
        packed = [(grain, start, row) for start, row in zip(starts, data, strict=True)]
        return self._rows(packed, uuids)

    def _rows(self, packed: Iterable[_PackedRow], uuids: tuple[str, ...]) -> list[SeriesRow]:
        return [
            SeriesRow(
                grain_seconds=grain, node_id=self.node_id, start=start, uuids=uuids, data=data
            )
            for grain, start, data in packed
        ]


def roll_up(tasks: Iterable[RollupTask]) -> list[SeriesRow]:
    """Return all rows that are finished; raise the error of the first node that fails."""
    rows, failures = roll_up_isolated(tasks)
    for failure in failures:
        raise failure.error
    return rows


def roll_up_isolated(
    tasks: Iterable[RollupTask],
) -> tuple[list[SeriesRow], list[RollupFailure]]:
    """Return all rows that are finished, of many nodes at a time, and the nodes that fail.

    Nodes with as many GPUs share array operations: most of the cost is per operation. A node
    that fails costs the others nothing.
    """
    rows, alike = list[SeriesRow](), defaultdict[tuple[int, int], list[_TakenSpan]](list)
    failures: list[RollupFailure] = []
    for rollup, buffer, end, interval_seconds in tasks:
        try:
            grain, uuids = min_rollup_seconds(interval_seconds), buffer.uuids
            until = end // grain * grain
            if buffer.since < until:
                span = buffer.take_until(until, grain)
                alike[len(uuids), grain].append(_TakenSpan(rollup, uuids, span, end))
            else:
                rows += rollup.finish(end)
        except Exception as error:  # noqa: BLE001  # set aside, see above
            failures.append(RollupFailure(rollup.node_id, error))
    for (gpu_count, grain), taken in alike.items():
        for first in range(0, len(taken), _NODES_PER_BATCH):
            batch = taken[first : first + _NODES_PER_BATCH]
            for item, packed in _pack_taken(batch, gpu_count, grain, failures):
                try:
                    rows += item.rollup.add_packed(packed, item.uuids)
                    rows += item.rollup.finish(item.end)
                except Exception as error:  # noqa: BLE001  # set aside, see above
                    failures.append(RollupFailure(item.rollup.node_id, error))
    return rows, failures


def _pack_taken(
    batch: Sequence[_TakenSpan], gpu_count: int, grain: int, failures: list[RollupFailure]
) -> list[tuple[_TakenSpan, list[_PackedRow]]]:
    """Pack the spans of several nodes together; where that fails, one by one."""
    try:
        packed = _pack_spans([item.span for item in batch], gpu_count, grain)
    except Exception as error:  # noqa: BLE001  # see `roll_up_isolated`
        if len(batch) == 1:
            failures.append(RollupFailure(batch[0].rollup.node_id, error))
            return []
        alone = [_pack_taken([item], gpu_count, grain, failures) for item in batch]
        return [pair for pairs in alone for pair in pairs]
    return list(zip(batch, packed, strict=True))


def _pack_spans(
    spans: Sequence[SampleSpan], gpu_count: int, min_grain: int
) -> list[list[_PackedRow]]:
    """The rows of each span, computed on one time axis on which the spans lie end to end."""
    packed = b"".join([span.packed for span in spans])
    *_, dtype, positions = sample_format(gpu_count)
    samples = np.frombuffer(packed, dtype)
    # Many GPUs never report some figures. Without those columns all values are mostly known, for
    # which aggregation has a fast path.
    measured = ~np.isnan(samples["figures"]).all(axis=0)[positions]
    figures = samples["figures"][:, positions[measured]]
    # Spans are whole multiples of the grain, so shifting them moves no edge of a grain.
    ends = list(accumulate([span.end - span.start for span in spans]))
    shifts = [end - span.end for span, end in zip(spans, ends, strict=True)]
    counts = [len(span.packed) // samples.itemsize for span in spans]
    times = samples["at"] + np.repeat(shifts, counts)
    if min_grain == _COARSE:
        rows = {_COARSE: bin_samples(times, figures, ends[-1], _COARSE)}
    else:
        fine = bin_samples(times, figures, ends[-1], _FINE)
        rows = {_FINE: fine, _MIDDLE: resample(fine, _MIDDLE)}
    packed_rows = {
        grain: (arrays.starts, pack(arrays, gpu_count, measured)) for grain, arrays in rows.items()
    }
    return _split_spans(packed_rows, ends, shifts)


def _split_spans(
    rows_by_grain: dict[int, tuple[Float64Array, list[bytes]]],
    ends: Sequence[float],
    shifts: Sequence[float],
) -> list[list[_PackedRow]]:
    """The packed rows of each span, shifted back to their own time."""
    spans: list[list[_PackedRow]] = [[] for _ in ends]
    for grain, (row_starts, data) in rows_by_grain.items():
        first, grains_per_row = 0, max(1, MAX_ROW_SECONDS // grain)
        starts, lasts = row_starts.tolist(), row_starts.searchsorted(ends).tolist()
        for span, shift, last in zip(spans, shifts, lasts, strict=True):
            for index in range(first, last, grains_per_row):
                joined = b"".join(data[index : min(index + grains_per_row, last)])
                span.append((grain, int(starts[index] - shift), joined))
            first = last
    return spans


def _single_grains(
    rows: Iterable[SeriesRow], grain: int, start: float, end: float
) -> list[SeriesRow]:
    """Split the rows of a grain in this range into single known grains; the last duplicate wins."""
    by_start: dict[float, SeriesRow] = {}
    for row in rows:
        if row.grain_seconds == grain:
            for at in range(max(row.start, int(start)), min(row_end(row), int(end)), grain):
                if (single := slice_row_at(row, at)) is not None:
                    by_start[at] = single
    return [by_start[at] for at in sorted(by_start)]
