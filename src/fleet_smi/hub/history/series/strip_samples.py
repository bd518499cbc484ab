"""How a GPU looked every quarter of an hour, and every hour: what wide heat strips are drawn from.

Samples are numbered since 1970, those of each grain on their own. Some are packed together:
four bytes a sample that number its look, in the machine's own order, and one that has its
load. Pure.
"""

import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from math import ceil
from operator import itemgetter
from typing import NamedTuple

from fleet_smi.hub.history.series.series_row import GpuKey
from fleet_smi.model.heat_strip import UNKNOWN_LOAD, LookSamples, StripLook

SAMPLE_INTERVALS = (900, 3600)
"""Seconds between samples, the finest first."""
_TOGETHER = 96
_NUMBER_BYTES = 4

PackedSamples = tuple[bytes, bytes]
"""Looks, and loads."""
NO_SAMPLES: PackedSamples = bytes(_TOGETHER * _NUMBER_BYTES), bytes([UNKNOWN_LOAD]) * _TOGETHER


class SampleKey(NamedTuple):
    """What is packed together: samples of a GPU, by its number, from the second `bucket` on."""

    grain: int
    bucket: int
    gpu: int


class LookInterval(NamedTuple):
    """A GPU as long as it looked one way: both by their numbers."""

    gpu: int
    start: float
    end: float
    look: int
    busy_percent: float | None


class SampleFill(NamedTuple):
    """What is to be noted from one place to another of those that are packed together."""

    first: int
    last: int
    look: int
    load: int


class SampleTimes(NamedTuple):
    """Samples of one grain: their numbers, in order."""

    grain: int
    numbers: Sequence[int]

    @classmethod
    def at_or_before(cls, grain: int, moments: Iterable[float]) -> "SampleTimes":
        """The last one by each of some moments, two or more."""
        return cls(grain, [int(moment // grain) for moment in moments])

    def indices_between(self, start: float, end: float | None) -> slice:
        """Which of them are in a stretch; it goes on where it has no end."""
        first = bisect_left(self.numbers, _first_from(start, self.grain))
        if end is None:
            return slice(first, len(self.numbers))
        return slice(first, bisect_left(self.numbers, _first_from(end, self.grain)))

    def buckets(self) -> list[int]:
        """Where all begin that they are packed in."""
        rows = range(self.numbers[0] // _TOGETHER, self.numbers[-1] // _TOGETHER + 1)
        return [row * _TOGETHER * self.grain for row in rows]

    def make_picker(self) -> Callable[[Sequence[PackedSamples]], LookSamples]:
        """What picks them out of all that they are packed in."""
        first = self.numbers[0] // _TOGETHER * _TOGETHER
        pick = itemgetter(*[number - first for number in self.numbers])

        def samples(rows: Sequence[PackedSamples]) -> LookSamples:
            looks, loads = (b"".join(each) for each in zip(*rows, strict=True))
            return LookSamples(list(pick(memoryview(looks).cast("I"))), bytearray(pick(loads)))

        return samples


class GpuStripSamples(NamedTuple):
    """GPUs at some moments, and what the numbers of their looks stand for."""

    gpus: dict[GpuKey, LookSamples]
    looks: dict[int, StripLook]


def encode_load(busy_percent: float | None) -> int:
    """A load as it is noted."""
    return (
        UNKNOWN_LOAD if busy_percent is None else max(0, min(round(busy_percent), UNKNOWN_LOAD - 1))
    )


def sample_fills(intervals: Iterable[LookInterval]) -> dict[SampleKey, list[SampleFill]]:
    """What these stretches have to say of any samples; most of the short ones have nothing."""
    found: dict[SampleKey, list[SampleFill]] = defaultdict(list)
    for gpu, start, end, look, busy_percent in intervals:
        for grain in SAMPLE_INTERVALS:
            first, last = _first_from(start, grain), _first_from(end, grain)
            while first < last:
                row = first // _TOGETHER
                begins, ends = row * _TOGETHER, (row + 1) * _TOGETHER
                places = first - begins, min(ends, last) - begins
                mark = SampleFill(*places, look, encode_load(busy_percent))
                found[SampleKey(grain, begins * grain, gpu)].append(mark)
                first = ends
    return found


def apply_fills(packed: PackedSamples, fills: Iterable[SampleFill]) -> PackedSamples:
    """Samples with more noted among them."""
    looks, loads = bytearray(packed[0]), bytearray(packed[1])
    for first, last, look, load in fills:
        number = look.to_bytes(_NUMBER_BYTES, sys.byteorder)
        looks[first * _NUMBER_BYTES : last * _NUMBER_BYTES] = number * (last - first)
        loads[first:last] = bytes([load]) * (last - first)
    return bytes(looks), bytes(loads)


def _first_from(at: float, grain: int) -> int:
    """The number of the first sample that is not before a moment."""
    return ceil(at / grain)
