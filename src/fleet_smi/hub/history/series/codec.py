"""The figures of a node over stretches of time, and how they are packed into bytes.

Three values a figure: the least, the mean and the most; two bytes each, which is exact to one
part in 2,000. What nobody measured is not a number. Pure.
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

from fleet_smi.hub.history.series.series_row import SeriesRow

GRAINS = (10, 60, 900, 10800)
"""Seconds of a row, the finest first; each is a multiple of the one before."""

MAX_ROW_SECONDS = 360
"""So long are those at most that are kept one after another; a longer grain is alone."""

NODE_FIGURES = ("cpu_percent", "memory_percent")
GPU_FIGURES = (
    "busy_percent",
    "memory_used_gibibytes",
    "power_watts",
    "temperature_celsius",
    "sm_clock_mhz",
)
BUSY_INDEX, POWER_INDEX = GPU_FIGURES.index("busy_percent"), GPU_FIGURES.index("power_watts")
MEMORY_COLUMNS = slice(
    len(NODE_FIGURES) + GPU_FIGURES.index("memory_used_gibibytes"), None, len(GPU_FIGURES)
)
"""Where the memory of all GPUs is among the figures of a node."""
MIN, MEAN, MAX = range(3)
_VALUES = 3
# More than this no two bytes can hold, and no node has measured.
_MOST = 65_504.0
_SECONDS = struct.Struct("<f")

Float64Array = NDArray[np.float64]
Float32Array = NDArray[np.float32]


class SeriesArrays(NamedTuple):
    """Figures over stretches of one length, the oldest first.

    Of each so many `seconds` are known. Its `values` are the least, the mean and the most of
    every figure: those of the node, then those of each GPU.
    """

    starts: Float64Array
    seconds: Float64Array
    values: Float32Array


def figure_count(gpu_count: int) -> int:
    """How many figures a node with so many GPUs has."""
    return len(NODE_FIGURES) + len(GPU_FIGURES) * gpu_count


def gpu_offset(gpu_index: int) -> int:
    """Where the figures of the GPU in this place begin."""
    return figure_count(gpu_index)


def empty_arrays(count: int) -> SeriesArrays:
    """No rows, of so many figures."""
    return SeriesArrays(np.empty(0), np.empty(0), np.empty((0, _VALUES, count), np.float32))


def bin_samples(times: Float64Array, figures: Float32Array, end: float, grain: int) -> SeriesArrays:
    """Samples as rows: each holds until the next, and the last until `end`, which is after it."""
    edges = np.arange(times[0] // grain * grain + grain, end, grain)
    points = np.concatenate((times, edges, (end,)))
    points.sort()
    held = points[1:] - points[:-1]
    lasting = held > 0.0
    held, begins = held[lasting], points[:-1][lasting]
    told = figures[times.searchsorted(begins, side="right") - 1]
    firsts = np.concatenate(((0,), begins.searchsorted(edges)))
    return _joined(SeriesArrays(begins, held, told[:, np.newaxis, :]), firsts, grain)


def resample(rows: SeriesArrays, grain: int) -> SeriesArrays:
    """Rows joined to longer ones, each with the weight of its seconds."""
    if not len(rows.starts):
        return rows
    starts = rows.starts // grain
    firsts = np.concatenate(((0,), np.flatnonzero(starts[1:] != starts[:-1]) + 1))
    return _joined(rows, firsts, grain)


def select_rows(
    rows: SeriesArrays, selection: slice | NDArray[np.bool_] | NDArray[np.intp]
) -> SeriesArrays:
    """Some of the rows."""
    return SeriesArrays(rows.starts[selection], rows.seconds[selection], rows.values[selection])


def drop_unknown(rows: SeriesArrays) -> SeriesArrays:
    """Those of which anything is known."""
    return select_rows(rows, rows.seconds > 0.0)


def concatenate(rows: Sequence[SeriesArrays]) -> SeriesArrays:
    """Rows of the same figures, one after another."""
    return SeriesArrays(*[np.concatenate(each) for each in zip(*rows, strict=True)])


def align_gpus(
    rows: SeriesArrays, uuids: Sequence[str], target_uuids: Sequence[str]
) -> SeriesArrays:
    """Rows of the GPUs `uuids` as ones of those `wanted`; what they do not have is unknown."""
    if uuids == target_uuids:
        return rows
    values = np.full((*rows.values.shape[:2], figure_count(len(target_uuids))), np.nan, np.float32)
    for place, first in column_moves(uuids, target_uuids):
        values[..., place] = rows.values[..., first]
    return rows._replace(values=values)


def column_moves(uuids: Sequence[str], target_uuids: Sequence[str]) -> list[tuple[slice, slice]]:
    """Where the figures of those `wanted` are to be, and where they are among those of `uuids`."""
    node, starts = (
        slice(figure_count(0)),
        {uuid: gpu_offset(place) for place, uuid in enumerate(uuids)},
    )
    count = len(GPU_FIGURES)
    moved = [
        (slice(gpu_offset(place), gpu_offset(place) + count), slice(first, first + count))
        for place, uuid in enumerate(target_uuids)
        if (first := starts.get(uuid)) is not None
    ]
    return [(node, node), *moved]


def pack(rows: SeriesArrays) -> list[bytes]:
    """Each row as bytes; the layout is up to who keeps them, and so is when it began."""
    values = np.where(np.abs(rows.values) > _MOST, np.nan, rows.values).astype("<f2")
    packed = np.empty((len(values), _SECONDS.size + 2 * _VALUES * values.shape[2]), np.uint8)
    packed[:, : _SECONDS.size] = rows.seconds.astype("<f4")[:, np.newaxis].view(np.uint8)
    packed[:, _SECONDS.size :] = values.reshape(len(values), -1).view(np.uint8)
    return [row.tobytes() for row in packed]


def packed_size(gpu_count: int) -> int:
    """How many bytes a row of a node with so many GPUs has."""
    return _SECONDS.size + 2 * _VALUES * figure_count(gpu_count)


def unpack(starts: Sequence[float], data: bytes, gpu_count: int) -> SeriesArrays:
    """Rows of a node with so many GPUs that `pack` has packed, one after another."""
    packed = np.frombuffer(data, _packing(figure_count(gpu_count)))
    return SeriesArrays(
        np.array(starts, float), packed["seconds"].astype(float), packed["values"].astype("<f4")
    )


def row_end(row: SeriesRow) -> int:
    """When the last grain of a row ends."""
    return row.start + len(row.data) // packed_size(len(row.uuids)) * row.grain_seconds


def slice_row(row: SeriesRow, start: float, end: float) -> SeriesRow | None:
    """Those grains of a row that are within a range, if there are any."""
    grain, size = row.grain_seconds, packed_size(len(row.uuids))
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
    """The one grain of a row that a moment is in, if anything is known of it."""
    start = at // row.grain_seconds * row.grain_seconds
    part = slice_row(row, start, start + row.grain_seconds)
    return part if part is not None and _SECONDS.unpack_from(part.data)[0] > 0.0 else None


def decode_rows(rows: Iterable[SeriesRow], target_uuids: tuple[str, ...]) -> SeriesArrays:
    """Rows as the numbers in them, of the GPUs `wanted`; those of which anything is known."""
    found = [empty_arrays(figure_count(len(target_uuids)))]
    for uuids, some in groupby(rows, attrgetter("uuids")):
        alike, size = list(some), packed_size(len(uuids))
        starts = [
            row.start + row.grain_seconds * place
            for row in alike
            for place in range(len(row.data) // size)
        ]
        numbers = unpack(starts, b"".join([row.data for row in alike]), len(uuids))
        found.append(align_gpus(numbers, uuids, target_uuids))
    all_of_them = concatenate(found)
    return drop_unknown(select_rows(all_of_them, all_of_them.starts.argsort(kind="stable")))


def all_uuids(rows: Iterable[SeriesRow]) -> tuple[str, ...]:
    """Every GPU that rows are of, those of the last first."""
    told_of = dict.fromkeys(row.uuids for row in rows)
    return tuple(dict.fromkeys(uuid for uuids in reversed(told_of) for uuid in uuids))


def _joined(rows: SeriesArrays, firsts: NDArray[np.intp], grain: int) -> SeriesArrays:
    """Rows joined to longer ones, that begin with the rows `firsts`.

    A row with one value for each figure has that as its least, its mean and its most.
    """
    starts, seconds, values = rows
    ends = np.append(firsts[1:], len(starts))[:, np.newaxis]
    # As many for each as the longest has: the last again and again, which then weighs nothing.
    places = firsts[:, np.newaxis] + np.arange((ends[:, 0] - firsts).max())
    weights = seconds[np.minimum(places, ends - 1)].astype(np.float32) * (places < ends)
    parts = values[np.minimum(places, ends - 1)]
    least, mean, most = parts[:, :, 0], parts[:, :, parts.shape[2] // 2], parts[:, :, -1]
    made = np.empty((len(firsts), _VALUES, values.shape[2]), np.float32)
    sums, told = np.einsum("rp,rpf->rf", weights, mean), weights.sum(axis=1)
    if not isnan(sums.sum()):
        made[:, MIN], made[:, MAX] = least.min(axis=1), most.max(axis=1)
        made[:, MEAN] = sums / told[:, np.newaxis]
        return SeriesArrays(starts[firsts] // grain * grain, told, made)
    known = ~np.isnan(mean)
    weights = weights * known.any(axis=2)
    told, each = weights.sum(axis=1), np.einsum("rp,rpf->rf", weights, known)
    each[each == 0.0] = np.nan
    made[:, MIN], made[:, MAX] = np.fmin.reduce(least, axis=1), np.fmax.reduce(most, axis=1)
    made[:, MEAN] = np.einsum("rp,rpf->rf", weights, np.where(known, mean, 0.0)) / each
    return SeriesArrays(starts[firsts] // grain * grain, told, made)


@lru_cache(maxsize=256)
def _packing(figures: int) -> np.dtype[np.void]:
    return np.dtype([("seconds", "<f4"), ("values", "<f2", (_VALUES, figures))])
