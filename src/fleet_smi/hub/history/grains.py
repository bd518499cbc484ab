"""The figures of a node over a stretch of time, and how they are packed into bytes.

Three values a figure: the least, the mean and the most; two bytes each, which is exact to one
part in 2,000. What nobody measured is not a number.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import isnan, nan
from operator import mul

from msgspec import Struct

GRAINS = (10, 60, 900, 10800)
"""Seconds of a row, the finest first; each is a multiple of the one before."""

NODE_FIGURES = ("cpu_percent", "memory_percent")
GPU_FIGURES = (
    "busy_percent",
    "memory_used_gibibytes",
    "power_watts",
    "temperature_celsius",
    "sm_clock_mhz",
)
BUSY, WATTS = GPU_FIGURES.index("busy_percent"), GPU_FIGURES.index("power_watts")
_MEMORY = slice(len(NODE_FIGURES) + GPU_FIGURES.index("memory_used_gibibytes"), None, 5)
_GIB = 1 << 30
# More than this no two bytes can hold, and no node has measured.
_MOST = 65_504.0
# Weights that are as even as this need not be weighed.
_EVEN = 0.05

Values = tuple[float, ...]
"""A value for each figure: those of the node, then those of each GPU."""


class Row(Struct, frozen=True, array_like=True, gc=False):
    """Figures over a stretch, of which so many `seconds` are known."""

    seconds: float
    least: Values
    mean: Values
    most: Values


def width(gpus: int) -> int:
    """How many figures a node with so many GPUs has."""
    return len(NODE_FIGURES) + len(GPU_FIGURES) * gpus


def first_of(place: int) -> int:
    """Where the figures of the GPU in this place begin."""
    return width(place)


def in_gibibytes(values: Sequence[float]) -> Values:
    """The values with the memory of each GPU, which is told in bytes, as it is kept."""
    scaled = list(values)
    scaled[_MEMORY] = [used / _GIB for used in scaled[_MEMORY]]
    return tuple(scaled)


def pack(row: Row) -> bytes:
    """A row as bytes; the layout is up to who keeps them."""
    packing = _packing(len(row.mean), "e")
    try:
        return packing.pack(row.seconds, *row.least, *row.mean, *row.most)
    except OverflowError:
        kept = [
            value if abs(value) < _MOST else nan for value in (*row.least, *row.mean, *row.most)
        ]
        return packing.pack(row.seconds, *kept)


def unpack(data: bytes) -> Row:
    """What `pack` has packed."""
    figures = (len(data) - 4) // 6
    return _row(_packing(figures, "e").unpack(data))


def pack_exactly(row: Row) -> bytes:
    """A row as bytes to go on from: it is joined with others before it is kept."""
    return _packing(len(row.mean), "f").pack(row.seconds, *row.least, *row.mean, *row.most)


def unpack_exactly(data: bytes) -> Row:
    """What `pack_exactly` has packed."""
    figures = (len(data) - 4) // 12
    return _row(_packing(figures, "f").unpack(data))


def placed(row: Row, uuids: Sequence[str], wanted: Sequence[str]) -> Row:
    """A row of the GPUs `uuids` as one of those `wanted`; what it does not have is unknown."""
    if uuids == wanted:
        return row
    starts = {uuid: first_of(place) for place, uuid in enumerate(uuids)}
    chosen = [starts.get(uuid) for uuid in wanted]
    return Row(row.seconds, *[_moved(values, chosen) for values in (row.least, row.mean, row.most)])


def _moved(values: Values, starts: Sequence[int | None]) -> Values:
    count, moved = len(GPU_FIGURES), list(values[: len(NODE_FIGURES)])
    for start in starts:
        moved += (nan,) * count if start is None else values[start : start + count]
    return tuple(moved)


def joined(rows: Sequence[Row]) -> Row:
    """Rows of the same figures as one, each with the weight of its seconds."""
    if len(rows) == 1:
        return rows[0]
    weights = [row.seconds for row in rows]
    means = list(zip(*[row.mean for row in rows], strict=True))
    least = list(map(min, *[row.least for row in rows]))
    most = list(map(max, *[row.most for row in rows]))
    sums = list(map(sum, means))
    if isnan(sum(sums)):
        least = [
            _of_known(min, column) for column in zip(*[row.least for row in rows], strict=True)
        ]
        most = [_of_known(max, column) for column in zip(*[row.most for row in rows], strict=True)]
    return Row(sum(weights), tuple(least), mean_of(means, sums, weights), tuple(most))


def mean_of(
    columns: Sequence[Sequence[float]], sums: Sequence[float], weights: Sequence[float]
) -> Values:
    """The mean of each figure, where it is known; `columns` are its values, with their `sums`."""
    if max(weights) - min(weights) <= _EVEN * min(weights):
        count = len(weights)
        means = [total / count for total in sums]
    else:
        whole = sum(weights)
        means = [sum(map(mul, column, weights)) / whole for column in columns]
    if isnan(sum(means)):
        pairs = zip(means, columns, strict=True)
        means = [_mean_of_known(column, weights) if isnan(mean) else mean for mean, column in pairs]
    return tuple(means)


def _mean_of_known(values: Sequence[float], weights: Sequence[float]) -> float:
    known = [(one, w) for one, w in zip(values, weights, strict=True) if not isnan(one)]
    total = sum([weight for _, weight in known])
    return sum([value * weight for value, weight in known]) / total if total else nan


def _of_known(choose: Callable[[list[float]], float], values: Values) -> float:
    known = [value for value in values if not isnan(value)]
    return choose(known) if known else nan


@lru_cache(maxsize=256)
def _packing(figures: int, code: str) -> struct.Struct:
    return struct.Struct(f"<f{3 * figures}{code}")


def _row(unpacked: tuple[float, ...]) -> Row:
    seconds, values = unpacked[0], unpacked[1:]
    count = len(values) // 3
    return Row(seconds, values[:count], values[count : 2 * count], values[2 * count :])
