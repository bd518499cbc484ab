"""Heat-strip samples: the look of a GPU every 15 minutes and every hour, packed in buckets.

Samples of a grain are numbered since 1970. A bucket has 96 consecutive samples of one GPU: four
bytes per sample with the id of its look, in native byte order, and one byte with its load. Pure.
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
_SAMPLES_PER_BUCKET = 96  # one day of the finer grain, four of the coarser
_LOOK_ID_BYTES = 4

PackedSamples = tuple[bytes, bytes]
"""The look ids and the loads of a bucket."""
NO_SAMPLES: PackedSamples = (
    bytes(_SAMPLES_PER_BUCKET * _LOOK_ID_BYTES),  # zero is `UNKNOWN_LOOK`
    bytes([UNKNOWN_LOAD]) * _SAMPLES_PER_BUCKET,
)


class SampleKey(NamedTuple):
    """The key of a bucket: grain, start time and id of the GPU."""

    grain: int
    bucket: int
    gpu: int


class LookInterval(NamedTuple):
    """An interval in which a GPU had one look; both are given by their ids."""

    gpu: int
    start: float
    end: float
    look: int
    busy_percent: float | None


class SampleFill(NamedTuple):
    """A look and a load for the samples `first` to `last` of a bucket, without the last."""

    first: int
    last: int
    look: int
    load: int


class SampleTimes(NamedTuple):
    """The numbers of samples of one grain, in order."""

    grain: int
    numbers: Sequence[int]

    @classmethod
    def at_or_before(cls, grain: int, times: Iterable[float]) -> "SampleTimes":
        """The last sample at or before each of these times, of which there are at least two."""
        return cls(grain, [int(at // grain) for at in times])

    def indices_between(self, start: float, end: float | None) -> slice:
        """The indices of the samples in an interval, which may have no end."""
        first = bisect_left(self.numbers, _first_from(start, self.grain))
        if end is None:
            return slice(first, len(self.numbers))
        return slice(first, bisect_left(self.numbers, _first_from(end, self.grain)))

    def buckets(self) -> list[int]:
        """The start times of the buckets that have these samples."""
        buckets = range(
            self.numbers[0] // _SAMPLES_PER_BUCKET, self.numbers[-1] // _SAMPLES_PER_BUCKET + 1
        )
        return [bucket * _SAMPLES_PER_BUCKET * self.grain for bucket in buckets]

    def make_picker(self) -> Callable[[Sequence[PackedSamples]], LookSamples]:
        """Return a function that picks these samples out of their consecutive buckets."""
        first = self.numbers[0] // _SAMPLES_PER_BUCKET * _SAMPLES_PER_BUCKET
        # All samples of a GPU in one call. With a single index it would not return a tuple, which
        # is why there must be two times.
        pick = itemgetter(*[number - first for number in self.numbers])

        def samples(buckets: Sequence[PackedSamples]) -> LookSamples:
            # In native byte order the ids are read in place, without decoding.
            looks, loads = (b"".join(column) for column in zip(*buckets, strict=True))
            return LookSamples(list(pick(memoryview(looks).cast("I"))), bytearray(pick(loads)))

        return samples


class GpuStripSamples(NamedTuple):
    """The samples of GPUs, and the looks by their ids."""

    gpus: dict[GpuKey, LookSamples]
    looks: dict[int, StripLook]


def bucket_seconds(grain: int) -> int:
    """The time that one bucket of a grain covers."""
    return _SAMPLES_PER_BUCKET * grain


def encode_load(busy_percent: float | None) -> int:
    """A load as one byte."""
    return (
        UNKNOWN_LOAD if busy_percent is None else max(0, min(round(busy_percent), UNKNOWN_LOAD - 1))
    )


def sample_fills(intervals: Iterable[LookInterval]) -> dict[SampleKey, list[SampleFill]]:
    """The fills of these intervals by bucket; a short interval often has no sample at all."""
    fills: dict[SampleKey, list[SampleFill]] = defaultdict(list)
    for gpu, start, end, look, busy_percent in intervals:
        for grain in SAMPLE_INTERVALS:
            first, last = _first_from(start, grain), _first_from(end, grain)
            while first < last:
                bucket = first // _SAMPLES_PER_BUCKET * _SAMPLES_PER_BUCKET
                bucket_end = bucket + _SAMPLES_PER_BUCKET
                indices = first - bucket, min(bucket_end, last) - bucket
                fill = SampleFill(*indices, look, encode_load(busy_percent))
                fills[SampleKey(grain, bucket * grain, gpu)].append(fill)
                first = bucket_end
    return fills


def apply_fills(packed: PackedSamples, fills: Iterable[SampleFill]) -> PackedSamples:
    """A bucket with these fills applied."""
    looks, loads = bytearray(packed[0]), bytearray(packed[1])
    for first, last, look, load in fills:
        look_id = look.to_bytes(_LOOK_ID_BYTES, sys.byteorder)
        looks[first * _LOOK_ID_BYTES : last * _LOOK_ID_BYTES] = look_id * (last - first)
        loads[first:last] = bytes([load]) * (last - first)
    return bytes(looks), bytes(loads)


def _first_from(at: float, grain: int) -> int:
    """The number of the first sample at or after a time."""
    return ceil(at / grain)
