"""Packed samples: the time, then the figures of a node and of its GPUs, as four-byte floats.

Arrays have all figures of the first GPU, then all of the second. In the samples of a buffer and of
its checkpoint the gauges of all GPUs come first and the other figures last, because these are read
less often: a sample is then the gauges, packed, and bytes that were packed before.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from math import nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleet_smi.hub.history.series.layout import GPU_COLUMNS, NODE_COLUMNS, figure_count, gpu_offset
from fleet_smi.model.figures import RECORDED_GPU_FIGURES, FigureSpec
from fleet_smi.model.snapshot import Instance, Snapshot
from fleet_smi.model.snapshot_figures import SnapshotFigures

SampleColumns = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of the figures of the node and of each GPU in packed samples, in order."""
CURRENT_COLUMNS: SampleColumns = (NODE_COLUMNS, GPU_COLUMNS)
FIRST_COLUMNS: SampleColumns = (
    ("cpu_percent", "memory_percent"),
    ("busy_percent", "memory_used_bytes", "power_watts", "temperature_celsius", "sm_clock_mhz"),
)
"""The columns of samples in checkpoints from before these named their columns."""

GAUGES = tuple([figure for figure in RECORDED_GPU_FIGURES if figure.history == "gauge"])
SLOW_FIGURES = tuple([figure for figure in RECORDED_GPU_FIGURES if figure.history != "gauge"])
"""The figures of a GPU of which only the mean is stored."""
LEADING_COLUMNS = tuple(
    [
        name
        for name, figure in zip(GPU_COLUMNS, RECORDED_GPU_FIGURES, strict=True)
        if figure in GAUGES
    ]
)
"""The names of the gauges, which come before all other figures of GPUs in buffered samples."""

# Larger numbers would overflow a four-byte float when they are multiplied by seconds.
_MAX_FIGURE = 1e30


class SampleFormat(NamedTuple):
    """The two parts of a buffered sample, both together for numpy, and where each column is."""

    gpu_count: int
    gauges: struct.Struct
    slow: struct.Struct
    dtype: np.dtype[np.void]
    positions: NDArray[np.intp]


@lru_cache(maxsize=256)
def sample_format(gpu_count: int) -> SampleFormat:
    """The format of the buffered samples of a node."""
    gauges = len(NODE_COLUMNS) + len(GAUGES) * gpu_count
    slow = len(SLOW_FIGURES) * gpu_count
    return SampleFormat(
        gpu_count,
        struct.Struct(f"=d{gauges}f"),
        struct.Struct(f"={slow}f"),
        sample_dtype(gauges + slow),
        _positions(CURRENT_COLUMNS, LEADING_COLUMNS, gpu_count),
    )


def sample_dtype(figures: int) -> np.dtype[np.void]:
    """The format of a sample with this number of figures, in any order."""
    return np.dtype([("at", "f8"), ("figures", "f4", (figures,))])


def column_positions(columns: SampleColumns, gpu_count: int) -> dict[int, int]:
    """Where columns of samples from an older checkpoint are today, by their former position."""
    node, gpu = columns
    positions = {
        index: NODE_COLUMNS.index(name) for index, name in enumerate(node) if name in NODE_COLUMNS
    }
    for number in range(gpu_count):
        first = len(node) + number * len(gpu)
        for index, name in enumerate(gpu):
            if name in GPU_COLUMNS:
                positions[first + index] = gpu_offset(number) + GPU_COLUMNS.index(name)
    return positions


def convert_samples(
    packed: bytes, columns: SampleColumns, leading: Sequence[str], gpu_count: int
) -> bytes:
    """Repack the samples of a checkpoint as a buffer has them today.

    They have these columns, those of `leading` before the others; figures that they do not have
    are unknown. Raise `ValueError` where the bytes are not whole samples with these columns.
    """
    node, gpu = columns
    before = np.frombuffer(packed, sample_dtype(len(node) + len(gpu) * gpu_count))
    after = np.empty(len(before), sample_dtype(figure_count(gpu_count)))
    after["at"], after["figures"] = before["at"], nan
    sources, targets = _positions(columns, leading, gpu_count), sample_format(gpu_count).positions
    for source, target in column_positions(columns, gpu_count).items():
        after["figures"][:, targets[target]] = before["figures"][:, sources[source]]
    return after.tobytes()


def pack_figures(
    part: struct.Struct, head: Sequence[float], figures: Sequence[float | None]
) -> bytes:
    """Pack figures of which some are unknown or impossible, after those of `head`."""
    try:
        return part.pack(*head, *[nan if figure is None else figure for figure in figures])
    except (struct.error, OverflowError):
        return part.pack(*head, *map(_valid_or_nan, figures))


def instance_fields(figures: Sequence[FigureSpec]) -> list[str | None]:
    """The attributes of an instance for these figures; most are known of whole GPUs alone."""
    fields = Instance.__struct_fields__
    return [figure.field if figure.field in fields else None for figure in figures]


def instance_figures(
    source: Snapshot | SnapshotFigures, fields: Sequence[str | None]
) -> list[float | None]:
    """These figures of all instances of all GPUs; the `SnapshotFigures` are those without any."""
    if isinstance(source, SnapshotFigures):
        return []
    return [
        None if field is None else getattr(instance, field)
        for gpu in source.gpus
        for instance in gpu.instances
        for field in fields
    ]


def _valid_or_nan(figure: float | None) -> float:
    return figure if figure is not None and abs(figure) < _MAX_FIGURE else nan


def _positions(columns: SampleColumns, leading: Sequence[str], gpu_count: int) -> NDArray[np.intp]:
    """Where the figures of the node and of one GPU after another are in a packed sample."""
    node, gpu = columns
    first = len(node) + len([name for name in gpu if name in leading]) * gpu_count
    next_leading, next_other = count(len(node)), count(first)
    gpus = [
        next(next_leading if name in leading else next_other)
        for _ in range(gpu_count)
        for name in gpu
    ]
    return np.array([*range(len(node)), *gpus], np.intp)
