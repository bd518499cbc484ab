"""Sample buffer of one node: packed figures of its reports, until they are rolled up into rows.

Adding a report only packs its figures; statistics are computed later, for many samples at once.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from math import inf, isfinite, nan, nextafter
from operator import attrgetter, mul, sub
from typing import NamedTuple

import numpy as np

from fleet_smi.hub.history.series.codec import column_moves
from fleet_smi.hub.history.series.counter_growth import CounterGrowth
from fleet_smi.hub.history.series.layout import GPU_COLUMNS, NODE_COLUMNS, figure_count, gpu_offset
from fleet_smi.model.figures import RECORDED_GPU_FIGURES, RECORDED_NODE_FIGURES
from fleet_smi.model.snapshot import Host, Instance, Snapshot

_TIME = struct.Struct("=d")
# Larger numbers would overflow a four-byte float when they are multiplied by seconds.
_MAX_FIGURE = 1e30


def _memory_percent(host: Host) -> float:
    used, total = host.memory_used_bytes, host.memory_total_bytes
    return nan if used is None or not total else 100 * used / total


# All are attributes of the host but this one, which is computed.
_NODE_READERS: tuple[Callable[[Host], float | None], ...] = tuple(
    [
        _memory_percent if figure.field == "memory_percent" else attrgetter(figure.field)
        for figure in RECORDED_NODE_FIGURES
    ]
)
_read_gpu = attrgetter(*[figure.field for figure in RECORDED_GPU_FIGURES])
_INSTANCE_FIELDS = [
    figure.field if figure.field in Instance.__struct_fields__ else None
    for figure in RECORDED_GPU_FIGURES
]

SampleColumns = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of the figures of the node and of each GPU in packed samples, in order."""
CURRENT_COLUMNS: SampleColumns = (NODE_COLUMNS, GPU_COLUMNS)
FIRST_COLUMNS: SampleColumns = (
    ("cpu_percent", "memory_percent"),
    ("busy_percent", "memory_used_bytes", "power_watts", "temperature_celsius", "sm_clock_mhz"),
)
"""The columns of samples in checkpoints from before these named their columns."""


class SampleSpan(NamedTuple):
    """Packed samples, each of which holds until the next, and the last until `end`.

    The first begins exactly at `start`.
    """

    start: float
    end: float
    packed: bytes


FigureSums = dict[int, tuple[float, float]]
"""By column: the integral of the figure over time, and the seconds in which it was known."""


class SampleBuffer:
    """Samples in time order; `uuids` are the GPUs whose columns they have.

    The first of these are present now; the others were when the oldest samples were taken.
    """

    __slots__ = (
        "_absent_figures",
        "_all_known",
        "_counter_growth",
        "_dtype",
        "_present",
        "_samples",
        "_struct",
        "uuids",
    )

    def __init__(self, uuids: Sequence[str] = (), packed: bytes = b"") -> None:
        self._all_known = True
        self._set_uuids(tuple(uuids), ())
        size = self._struct.size
        self._samples = [packed[first : first + size] for first in range(0, len(packed), size)]

    @property
    def packed(self) -> bytes:
        """All samples, for a checkpoint."""
        return b"".join(self._samples)

    @property
    def since(self) -> float:
        """The time of the first sample; infinite where there is none."""
        return _time_of(self._samples[0]) if self._samples else inf

    def add(self, at: float, snapshot: Snapshot) -> None:
        """Append the figures of a snapshot."""
        node = [read(snapshot.host) for read in _NODE_READERS]
        figures: list[float | None] = list(chain.from_iterable(map(_read_gpu, snapshot.gpus)))
        self._counter_growth.apply(at, len(snapshot.gpus), figures)
        # Optimistic: most reports can be packed as they are, and the others raise. An exception
        # is expensive: where the last report had unknown figures, this one is not tried.
        packed = b""
        if self._all_known:
            try:
                packed = self._struct.pack(at, *node, *figures)
            except (struct.error, OverflowError):
                self._all_known = False
        self._samples.append(packed or self._pack_unusual(at, snapshot, [*node, *figures]))

    def add_unknown(self, at: float) -> None:
        """Append a sample without any known figure."""
        self._samples.append(self._unknown(at))

    def peek_until(self, end: float, grain: int) -> SampleSpan:
        """The samples before `end`, from the beginning of the first one's grain on."""
        start, samples = self.since // grain * grain, self._samples[: self._count_before(end)]
        head = [self._unknown(start)] if start < self.since else []
        return SampleSpan(start, end, b"".join([*head, *samples]))

    def take_until(self, end: float, grain: int) -> SampleSpan:
        """Remove and return the samples before `end`; the one that holds at `end` also stays."""
        taken, count = self.peek_until(end, grain), self._count_before(end)
        self._samples = [_with_time(end, self._samples[count - 1]), *self._samples[count:]]
        if self._absent_figures:
            self._move_columns(self._present, ())
        return taken

    def span_at(self, at: float, seconds: int) -> SampleSpan | None:
        """The sample that holds at a time, as a span of `seconds`; `None` before the first one."""
        count = self._count_before(nextafter(at, inf))  # a sample exactly at that time counts
        if not count:
            return None
        start = at // seconds * seconds
        return SampleSpan(start, start + seconds, _with_time(start, self._samples[count - 1]))

    def sums(self, start: float, end: float, columns: Iterable[int]) -> FigureSums:
        """Integrate these columns over a time span that has at least one sample."""
        first, last = (
            max(0, self._count_before(nextafter(start, inf)) - 1),
            self._count_before(end),
        )
        points = [start, *map(_time_of, self._samples[first + 1 : last]), end]
        durations = list(map(sub, points[1:], points))
        # Seen as four-byte floats: the time takes two, then each column takes one.
        floats = memoryview(b"".join(self._samples[first:last])).cast("f")
        stride, sums = self._struct.size // floats.itemsize, FigureSums()
        for column in columns:
            figures = floats[_TIME.size // floats.itemsize + column :: stride].tolist()
            integral, seconds = sum(map(mul, figures, durations)), end - start
            # Any unknown figure makes the sum NaN: only then is it worth looking at each.
            if not isfinite(integral):
                pairs = zip(figures, durations, strict=True)
                known = [(figure, held) for figure, held in pairs if isfinite(figure)]
                integral = sum([figure * held for figure, held in known])
                seconds = sum([held for _, held in known])
            sums[column] = integral, seconds
        return sums

    def set_gpus(self, uuids: tuple[str, ...]) -> None:
        """Set the GPUs that are present from now on."""
        if uuids != self._present:
            self._move_columns(uuids, tuple([uuid for uuid in self.uuids if uuid not in uuids]))

    def clear(self) -> None:
        """Remove all samples."""
        self._samples.clear()

    def _pack_unusual(self, at: float, snapshot: Snapshot, figures: list[float | None]) -> bytes:
        """Pack unknown or impossible figures, those of instances and of GPUs that have left."""
        values = [*figures, *_instance_figures(snapshot), *self._absent_figures]
        self._all_known = None not in values
        try:
            return self._struct.pack(at, *[nan if value is None else value for value in values])
        except (struct.error, OverflowError):
            return self._struct.pack(at, *map(_valid_or_nan, values))

    def _count_before(self, end: float) -> int:
        return bisect_left(self._samples, end, key=_time_of)

    def _unknown(self, at: float) -> bytes:
        return self._struct.pack(at, *[nan] * figure_count(len(self.uuids)))

    def _set_uuids(self, present: tuple[str, ...], absent: tuple[str, ...]) -> None:
        self._present, self.uuids = present, (*present, *absent)
        self._absent_figures = (nan,) * (len(GPU_COLUMNS) * len(absent))
        self._struct, self._dtype = sample_formats(len(self.uuids))
        self._counter_growth = CounterGrowth()  # counters of other GPUs do not count

    def _move_columns(self, present: tuple[str, ...], absent: tuple[str, ...]) -> None:
        """Repack all samples with the columns of other GPUs."""
        before, old_uuids = np.frombuffer(self.packed, self._dtype), self.uuids
        self._set_uuids(present, absent)
        after = np.empty(len(before), self._dtype)
        after["at"], after["figures"] = before["at"], nan
        for target, source in column_moves(old_uuids, self.uuids):
            after["figures"][:, target] = before["figures"][:, source]
        self._samples = [sample.tobytes() for sample in after]


def device_uuids(snapshot: Snapshot) -> tuple[str, ...]:
    """The order of GPU columns for a snapshot: all GPUs, then the instances of all of them."""
    instances = [instance.uuid for gpu in snapshot.gpus for instance in gpu.instances]
    return (*[gpu.uuid for gpu in snapshot.gpus], *instances)


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


def convert_samples(packed: bytes, columns: SampleColumns, gpu_count: int) -> bytes:
    """Repack samples with other columns; figures that they do not have are unknown.

    Raise `ValueError` where the bytes are not whole samples with these columns.
    """
    node, gpu = columns
    before = np.frombuffer(packed, _sample_dtype(len(node) + len(gpu) * gpu_count))
    after = np.empty(len(before), sample_formats(gpu_count)[1])
    after["at"], after["figures"] = before["at"], nan
    for source, target in column_positions(columns, gpu_count).items():
        after["figures"][:, target] = before["figures"][:, source]
    return after.tobytes()


@lru_cache(maxsize=256)
def sample_formats(gpu_count: int) -> tuple[struct.Struct, np.dtype[np.void]]:
    """The format of a packed sample of a node, for `struct` and for numpy."""
    figures = figure_count(gpu_count)
    return struct.Struct(f"=d{figures}f"), _sample_dtype(figures)


def _sample_dtype(figures: int) -> np.dtype[np.void]:
    return np.dtype([("at", "f8"), ("figures", "f4", (figures,))])


def _time_of(sample: bytes) -> float:
    at: float = _TIME.unpack_from(sample)[0]
    return at


def _with_time(at: float, sample: bytes) -> bytes:
    return _TIME.pack(at) + sample[_TIME.size :]


def _valid_or_nan(figure: float | None) -> float:
    return figure if figure is not None and abs(figure) < _MAX_FIGURE else nan


def _instance_figures(snapshot: Snapshot) -> list[float | None]:
    return [
        None if field is None else getattr(instance, field)
        for gpu in snapshot.gpus
        for instance in gpu.instances
        for field in _INSTANCE_FIELDS
    ]
