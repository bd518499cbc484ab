"""The samples of one node, put by until there are enough to be made rows.

For each report only its figures are packed: what they come to is worked out for many at once.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import inf, isfinite, nan, nextafter
from operator import mul, sub
from typing import NamedTuple

import numpy as np

from fleet_smi.hub.history.series.codec import GPU_FIGURES, column_moves, figure_count
from fleet_smi.model.snapshot import Snapshot

_TIME = struct.Struct("=d")
_TOO_MUCH = 1e30


class SampleSpan(NamedTuple):
    """Samples packed one after another: each holds until the next, and the last until `end`.

    The first is from its very `start`.
    """

    start: float
    end: float
    packed: bytes


FigureSums = dict[int, tuple[float, float]]
"""By its place: a figure times the seconds that it held, and those in which it was known."""


class SampleBuffer:
    """Samples in the order of their time; `uuids` are the GPUs that the figures are of.

    The first so many of these are there now, others were when the oldest samples were taken.
    """

    __slots__ = ("_absent", "_form", "_packing", "_present", "_samples", "uuids")

    def __init__(self, uuids: Sequence[str] = (), packed: bytes = b"") -> None:
        self._place(tuple(uuids), ())
        size = self._packing.size
        self._samples = [packed[first : first + size] for first in range(0, len(packed), size)]

    @property
    def packed(self) -> bytes:
        """All of them, for another to go on from."""
        return b"".join(self._samples)

    @property
    def since(self) -> float:
        """When the first of them was taken; never, where there is none."""
        return _time_of(self._samples[0]) if self._samples else inf

    def add(self, at: float, snapshot: Snapshot) -> None:
        """Put by the figures of one more sample."""
        host = snapshot.host
        used, total = host.memory_used_bytes, host.memory_total_bytes
        percent = nan if used is None or not total else 100 * used / total
        figures = [
            figure
            for gpu in snapshot.gpus
            for figure in (
                gpu.busy_percent,
                gpu.memory_used_bytes,
                gpu.power_watts,
                gpu.temperature_celsius,
                gpu.sm_clock_mhz,
            )
        ]
        try:
            packed = self._packing.pack(at, host.cpu_percent, percent, *figures)
        except (struct.error, OverflowError):  # not all are known or can be, or there are others
            told = [host.cpu_percent, percent, *figures, *_of_instances(snapshot), *self._absent]
            packed = self._packing.pack(at, *map(_known, told))
        self._samples.append(packed)

    def add_unknown(self, at: float) -> None:
        """From then on nothing is known."""
        self._samples.append(self._unknown(at))

    def peek_until(self, end: float, grain: int) -> SampleSpan:
        """What holds from the beginning of the first one's grain until `end`, which is after it."""
        start, samples = self.since // grain * grain, self._samples[: self._before(end)]
        head = [self._unknown(start)] if start < self.since else []
        return SampleSpan(start, end, b"".join([*head, *samples]))

    def take_until(self, end: float, grain: int) -> SampleSpan:
        """The same; what holds at `end` is left, and what came after."""
        taken, after = self.peek_until(end, grain), self._before(end)
        self._samples = [_at(end, self._samples[after - 1]), *self._samples[after:]]
        if self._absent:
            self._move(self._present, ())
        return taken

    def span_at(self, moment: float, seconds: int) -> SampleSpan | None:
        """What holds at a moment, as if it had for so many seconds."""
        after = self._before(nextafter(moment, inf))
        if not after:
            return None
        start = moment // seconds * seconds
        return SampleSpan(start, start + seconds, _at(start, self._samples[after - 1]))

    def sums(self, start: float, end: float, columns: Iterable[int]) -> FigureSums:
        """What these figures come to in a stretch of which there is a sample."""
        first, last = max(0, self._before(nextafter(start, inf)) - 1), self._before(end)
        points = [start, *map(_time_of, self._samples[first + 1 : last]), end]
        held = list(map(sub, points[1:], points))
        words = memoryview(b"".join(self._samples[first:last])).cast("f")
        every, sums = self._packing.size // words.itemsize, FigureSums()
        for place in columns:
            figures = words[_TIME.size // words.itemsize + place :: every].tolist()
            product, seconds = sum(map(mul, figures, held)), end - start
            if not isfinite(product):
                known = [pair for pair in zip(figures, held, strict=True) if isfinite(pair[0])]
                product = sum([figure * second for figure, second in known])
                seconds = sum([second for _, second in known])
            sums[place] = product, seconds
        return sums

    def set_gpus(self, uuids: tuple[str, ...]) -> None:
        """From now on there are these GPUs."""
        if uuids != self._present:
            self._move(uuids, tuple([uuid for uuid in self.uuids if uuid not in uuids]))

    def clear(self) -> None:
        """Forget all of them."""
        self._samples.clear()

    def _before(self, end: float) -> int:
        """How many are from before `end`."""
        return bisect_left(self._samples, end, key=_time_of)

    def _unknown(self, at: float) -> bytes:
        return self._packing.pack(at, *[nan] * figure_count(len(self.uuids)))

    def _place(self, present: tuple[str, ...], absent: tuple[str, ...]) -> None:
        self._present, self.uuids = present, (*present, *absent)
        self._absent = (nan,) * (len(GPU_FIGURES) * len(absent))
        self._packing, self._form = sample_formats(len(self.uuids))

    def _move(self, present: tuple[str, ...], absent: tuple[str, ...]) -> None:
        """Give every GPU its place anew."""
        before, was = np.frombuffer(self.packed, self._form), self.uuids
        self._place(present, absent)
        after = np.empty(len(before), self._form)
        after["at"], after["figures"] = before["at"], nan
        for place, first in column_moves(was, self.uuids):
            after["figures"][:, place] = before["figures"][:, first]
        self._samples = [one.tobytes() for one in after]


def device_uuids(snapshot: Snapshot) -> tuple[str, ...]:
    """What the figures of a snapshot are of: its GPUs, then the instances of all of them."""
    instances = [part.uuid for gpu in snapshot.gpus for part in gpu.instances]
    return (*[gpu.uuid for gpu in snapshot.gpus], *instances)


def _time_of(sample: bytes) -> float:
    at: float = _TIME.unpack_from(sample)[0]
    return at


def _at(moment: float, sample: bytes) -> bytes:
    """A sample as if it were of another moment."""
    return _TIME.pack(moment) + sample[_TIME.size :]


def _known(figure: float | None) -> float:
    """A figure, or not a number where none is told or no node can have it."""
    return figure if figure is not None and abs(figure) < _TOO_MUCH else nan


def _of_instances(snapshot: Snapshot) -> list[float | None]:
    return [
        figure
        for gpu in snapshot.gpus
        for part in gpu.instances
        for figure in (part.busy_percent, part.memory_used_bytes, None, None, None)
    ]


@lru_cache(maxsize=256)
def sample_formats(gpu_count: int) -> tuple[struct.Struct, np.dtype[np.void]]:
    """How a sample of a node with so many GPUs is packed."""
    figures = figure_count(gpu_count)
    form = np.dtype([("at", "f8"), ("figures", "f4", (figures,))])
    return struct.Struct(f"=d{figures}f"), form
