"""Codec of series rows: figures over time as arrays, and packed into bytes by their layout.

Each figure has three values: minimum, mean and maximum; an unknown one is NaN. In memory the
columns are always those of `CURRENT_LAYOUT`; packed rows of another layout are converted when
they are decoded. Pure.
"""

import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from math import ceil, floor, isnan
from operator import attrgetter
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from fleet_smi.hub.history.series.layout import (
    CURRENT_LAYOUT,
    GPU_COLUMNS,
    MAX_F2,
    RENAMED_FIGURES,
    VALUES_PER_FIGURE,
    Encoding,
    RowLayout,
    figure_count,
    gpu_offset,
)
from fleet_smi.hub.history.series.series_row import SeriesRow

GRAINS = (10, 60, 900, 10800)
"""Seconds per row, the finest first; each is a multiple of the one before."""

MAX_ROW_SECONDS = 360
"""The most that consecutive grains of one stored row cover; a longer grain has a row of its own."""

MIN, MEAN, MAX = range(VALUES_PER_FIGURE)
_SECONDS = struct.Struct("<f")

Float64Array = NDArray[np.float64]
Float32Array = NDArray[np.float32]
IndexArray = NDArray[np.intp]


class _Block(NamedTuple):
    """How the figures of one encoding are stored in a packed row, and which values of them."""

    dtype: str
    values: slice
    value_count: int


# In the order of a packed row.
_BLOCKS: dict[Encoding, _Block] = {
    "f2": _Block("<f2", slice(None), VALUES_PER_FIGURE),
    "f4": _Block("<f4", slice(None), VALUES_PER_FIGURE),
    "mean": _Block("<f2", slice(MEAN, MEAN + 1), 1),
}


class SeriesArrays(NamedTuple):
    """Figures over time spans of one length, the oldest first.

    `seconds` is the known time of each span. `values` has the shape (spans, 3, columns): the
    minimum, mean and maximum of each figure of the node, then of each GPU.
    """

    starts: Float64Array
    seconds: Float64Array
    values: Float32Array


class _ColumnMap(NamedTuple):
    """Columns of one encoding in packed rows, where they go in arrays, and the unit factor."""

    encoding: Encoding
    sources: IndexArray
    targets: IndexArray
    factor: float


def empty_arrays(column_count: int) -> SeriesArrays:
    """Arrays without rows."""
    values = np.empty((0, VALUES_PER_FIGURE, column_count), np.float32)
    return SeriesArrays(np.empty(0), np.empty(0), values)


def bin_samples(times: Float64Array, figures: Float32Array, end: float, grain: int) -> SeriesArrays:
    """Aggregate samples by grain: each holds until the next, and the last until `end`."""
    edges = np.arange(times[0] // grain * grain + grain, end, grain)
    # Split the time at every sample and every edge of a grain: each piece lies in one of both.
    points = np.concatenate((times, edges, (end,)))
    points.sort()
    durations = points[1:] - points[:-1]
    nonempty = durations > 0.0
    durations, starts = durations[nonempty], points[:-1][nonempty]
    values = figures[times.searchsorted(starts, side="right") - 1]
    firsts = np.concatenate(((0,), starts.searchsorted(edges)))
    return _aggregate(SeriesArrays(starts, durations, values[:, np.newaxis, :]), firsts, grain)


def resample(rows: SeriesArrays, grain: int) -> SeriesArrays:
    """Aggregate rows to a coarser grain, weighted by their known seconds."""
    if not len(rows.starts):
        return rows
    starts = rows.starts // grain
    firsts = np.concatenate(((0,), np.flatnonzero(starts[1:] != starts[:-1]) + 1))
    return _aggregate(rows, firsts, grain)


def select_rows(
    rows: SeriesArrays, selection: slice | NDArray[np.bool_] | IndexArray
) -> SeriesArrays:
    """The rows at these indices."""
    return SeriesArrays(rows.starts[selection], rows.seconds[selection], rows.values[selection])


def drop_unknown(rows: SeriesArrays) -> SeriesArrays:
    """The rows that have any known seconds."""
    return select_rows(rows, rows.seconds > 0.0)


def concatenate(rows: Sequence[SeriesArrays]) -> SeriesArrays:
    """Arrays with the same columns, one after another."""
    return SeriesArrays(*[np.concatenate(arrays) for arrays in zip(*rows, strict=True)])


def align_gpus(
    rows: SeriesArrays, uuids: Sequence[str], target_uuids: Sequence[str]
) -> SeriesArrays:
    """Reorder the columns from `uuids` to `target_uuids`; GPUs that are new there are unknown."""
    if uuids == target_uuids:
        return rows
    values = np.full((*rows.values.shape[:2], figure_count(len(target_uuids))), np.nan, np.float32)
    for target, source in column_moves(uuids, target_uuids):
        values[..., target] = rows.values[..., source]
    return rows._replace(values=values)


def column_moves(uuids: Sequence[str], target_uuids: Sequence[str]) -> list[tuple[slice, slice]]:
    """Pairs of target and source columns for the node and for each GPU that is in both lists."""
    node = slice(figure_count(0))
    offsets = {uuid: gpu_offset(index) for index, uuid in enumerate(uuids)}
    count = len(GPU_COLUMNS)
    gpus = [
        (slice(gpu_offset(index), gpu_offset(index) + count), slice(first, first + count))
        for index, uuid in enumerate(target_uuids)
        if (first := offsets.get(uuid)) is not None
    ]
    return [(node, node), *gpus]


def pack(
    rows: SeriesArrays, gpu_count: int, columns: NDArray[np.bool_] | None = None
) -> list[bytes]:
    """Each row as bytes in the current layout; the caller stores its start and its GPUs.

    `columns` marks the columns that the arrays have; all others are unknown.
    """
    packed = np.empty(len(rows.starts), _row_dtype(CURRENT_LAYOUT, gpu_count))
    packed["seconds"] = rows.seconds
    moved = None if columns is None else columns.cumsum() - 1
    for encoding, positions, indices, _ in _column_maps(CURRENT_LAYOUT, gpu_count):
        block, present = packed[encoding], slice(None) if columns is None else columns[indices]
        if columns is not None:
            block[...] = np.nan
        sources = indices if moved is None else moved[indices[present]]
        stored = _BLOCKS[encoding]
        values = rows.values[:, stored.values][:, :, sources]
        if stored.dtype == "<f2" and (too_large := np.abs(values) > MAX_F2).any():
            values[too_large] = np.nan  # would become infinite; no node has measured so much
        block[:, :, positions[present]] = values
    data, size = packed.tobytes(), packed.itemsize
    return [data[first : first + size] for first in range(0, len(data), size)]


def unpack(
    starts: Sequence[float], data: bytes, gpu_count: int, layout: RowLayout = CURRENT_LAYOUT
) -> SeriesArrays:
    """Decode consecutive packed rows; figures that their layout does not have are unknown."""
    packed = np.frombuffer(data, _row_dtype(layout, gpu_count))
    shape = (len(packed), VALUES_PER_FIGURE, figure_count(gpu_count))
    values = np.full(shape, np.nan, np.float32)
    for encoding, sources, targets, factor in _column_maps(layout, gpu_count):
        # A mean alone is also the minimum and the maximum: it is broadcast to all three.
        values[:, :, targets] = packed[encoding][:, :, sources] * np.float32(factor)
    return SeriesArrays(np.array(starts, float), packed["seconds"].astype(float), values)


def grain_count(row: SeriesRow) -> int:
    """The number of consecutive grains in a row."""
    return len(row.data) // row.layout.packed_size(len(row.uuids))


def row_end(row: SeriesRow) -> int:
    """The end of the last grain of a row."""
    return row.start + grain_count(row) * row.grain_seconds


def slice_row(row: SeriesRow, start: float, end: float) -> SeriesRow | None:
    """The grains of a row that lie within a range, if any."""
    grain, size = row.grain_seconds, row.layout.packed_size(len(row.uuids))
    count = len(row.data) // size
    first = max(0, ceil((max(start, row.start) - row.start) / grain))
    last = floor((min(end, row.start + count * grain) - row.start) / grain)
    if first >= last:
        return None
    if last - first == count:
        return row
    data = row.data[first * size : last * size]
    return replace(row, start=row.start + first * grain, data=data)


def slice_row_at(row: SeriesRow, at: float) -> SeriesRow | None:
    """The one grain of a row that contains a time, if any of it is known."""
    start = at // row.grain_seconds * row.grain_seconds
    part = slice_row(row, start, start + row.grain_seconds)
    return part if part is not None and _SECONDS.unpack_from(part.data)[0] > 0.0 else None


def cut_row(row: SeriesRow, at: float) -> SeriesRow:
    """A row that begins by a time, without what lies after it.

    Of the grain that contains the time, the figures stay, and the known seconds before it.
    """
    grain, size = row.grain_seconds, row.layout.packed_size(len(row.uuids))
    last = int((at - row.start) // grain)
    data = bytearray(row.data[: (last + 1) * size])
    if len(data) <= last * size:
        return row  # it ends before that
    (seconds,) = _SECONDS.unpack_from(data, last * size)
    _SECONDS.pack_into(data, last * size, min(seconds, at - row.start - last * grain))
    return row if data == row.data else replace(row, data=bytes(data))


def decode_rows(rows: Iterable[SeriesRow], target_uuids: tuple[str, ...]) -> SeriesArrays:
    """Decode rows of any layouts into arrays with the columns of these GPUs, in time order."""
    # Begins with an empty array, because nothing at all cannot be concatenated.
    decoded = [empty_arrays(figure_count(len(target_uuids)))]
    for (uuids, layout), group in groupby(rows, attrgetter("uuids", "layout")):
        alike = list(group)
        starts = [
            row.start + row.grain_seconds * index
            for row in alike
            for index in range(grain_count(row))
        ]
        arrays = unpack(starts, b"".join([row.data for row in alike]), len(uuids), layout)
        decoded.append(align_gpus(arrays, uuids, target_uuids))
    joined = concatenate(decoded)
    return drop_unknown(select_rows(joined, joined.starts.argsort(kind="stable")))


def all_uuids(rows: Iterable[SeriesRow]) -> tuple[str, ...]:
    """Every GPU that occurs in the rows, those of the last rows first."""
    tuples = dict.fromkeys(row.uuids for row in rows)
    return tuple(dict.fromkeys(uuid for uuids in reversed(tuples) for uuid in uuids))


def _aggregate(rows: SeriesArrays, firsts: IndexArray, grain: int) -> SeriesArrays:
    """Join each run of rows that begins at an index in `firsts` into one row.

    `rows.values` may have a single value per figure, which is its minimum, mean and maximum.
    """
    starts, seconds, values = rows
    ends = np.append(firsts[1:], len(starts))[:, np.newaxis]
    # A rectangle with room for the longest run: shorter ones repeat their last row, weight 0.
    indices = firsts[:, np.newaxis] + np.arange((ends[:, 0] - firsts).max())
    weights = seconds[np.minimum(indices, ends - 1)].astype(np.float32) * (indices < ends)
    parts = values[np.minimum(indices, ends - 1)]
    # The middle one of three values, or the only one.
    low, mean, high = parts[:, :, 0], parts[:, :, parts.shape[2] // 2], parts[:, :, -1]
    joined = np.empty((len(firsts), VALUES_PER_FIGURE, values.shape[2]), np.float32)
    sums, known_seconds = np.einsum("rp,rpf->rf", weights, mean), weights.sum(axis=1)
    if not isnan(sums.sum()):
        # The common case, several times as fast: nothing is unknown.
        joined[:, MIN], joined[:, MAX] = low.min(axis=1), high.max(axis=1)
        joined[:, MEAN] = sums / known_seconds[:, np.newaxis]
        return SeriesArrays(starts[firsts] // grain * grain, known_seconds, joined)
    known = ~np.isnan(mean)
    # A time in which no figure is known is silence: it does not count as known seconds.
    weights = weights * known.any(axis=2)
    known_seconds, divisors = weights.sum(axis=1), np.einsum("rp,rpf->rf", weights, known)
    divisors[divisors == 0.0] = np.nan  # a figure that was never known stays unknown
    # Unlike `min` and `max`, these ignore NaN.
    joined[:, MIN], joined[:, MAX] = np.fmin.reduce(low, axis=1), np.fmax.reduce(high, axis=1)
    joined[:, MEAN] = np.einsum("rp,rpf->rf", weights, np.where(known, mean, 0.0)) / divisors
    return SeriesArrays(starts[firsts] // grain * grain, known_seconds, joined)


@lru_cache(maxsize=256)
def _row_dtype(layout: RowLayout, gpu_count: int) -> np.dtype[np.void]:
    encodings = [column.encoding for _, column in layout.columns(gpu_count)]
    blocks = [
        (encoding, block.dtype, (block.value_count, encodings.count(encoding)))
        for encoding, block in _BLOCKS.items()
    ]
    return np.dtype([("seconds", "<f4"), *blocks])


@lru_cache(maxsize=256)
def _column_maps(layout: RowLayout, gpu_count: int) -> list[_ColumnMap]:
    """Where the columns of packed rows go in arrays, by encoding in packed order, and factor."""
    targets = {
        (index, column.name): target
        for target, (index, column) in enumerate(CURRENT_LAYOUT.columns(gpu_count))
    }
    moves: dict[tuple[Encoding, float], list[tuple[int, int]]] = {}
    next_source: dict[Encoding, int] = dict.fromkeys(_BLOCKS, 0)
    for index, (name, encoding) in layout.columns(gpu_count):
        source = next_source[encoding]
        next_source[encoding] += 1
        current_name, factor = RENAMED_FIGURES.get(name, (name, 1.0))
        # A figure that is no longer recorded has no target: it is skipped.
        if (target := targets.get((index, current_name))) is not None:
            moves.setdefault((encoding, factor), []).append((source, target))
    maps = []
    for encoding, factor in sorted(moves):
        from_columns, to_columns = np.array(moves[encoding, factor], np.intp).T
        maps.append(_ColumnMap(encoding, from_columns, to_columns, factor))
    return maps
