"""Sample buffer of one node: packed figures of its reports, until they are rolled up into rows.

Adding a report only packs its figures; statistics are computed later, for many samples at once.
"""

import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain
from math import inf, isfinite, nan, nextafter
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from fleet_smi.fleet.node_columns import NodeColumns
from fleet_smi.fleet.node_sample import NodeSample
from fleet_smi.hub.history.series.codec import column_moves
from fleet_smi.hub.history.series.layout import gpu_offset
from fleet_smi.hub.history.series.sample_format import (
    GAUGES,
    instance_fields,
    instance_figures,
    pack_figures,
    sample_format,
)
from fleet_smi.hub.history.series.slow_figures import SlowFigures
from fleet_smi.model.figures import RECORDED_NODE_FIGURES
from fleet_smi.model.snapshot import Host, Snapshot
from fleet_smi.model.snapshot_figures import GPU_FIELDS, HostFigures, SnapshotFigures

_TIME = struct.Struct("=d")


def _memory_percent(figures: Host | HostFigures, host: Host) -> float:
    used, total = figures.memory_used_bytes, host.memory_total_bytes
    return nan if used is None or not total else 100 * used / total


def _cpu_percent(figures: Host | HostFigures, _: Host) -> float | None:
    return figures.cpu_percent


# By the figures of a host, and by the host itself.
_READERS = {"memory_percent": _memory_percent, "cpu_percent": _cpu_percent}
_NODE_READERS = tuple([_READERS[figure.field] for figure in RECORDED_NODE_FIGURES])
_NODE_GAUGES = struct.Struct(f"=d{len(_NODE_READERS)}f")
_GAUGE_COLUMNS = tuple([GPU_FIELDS.index(figure.field) for figure in GAUGES])
_read_gauges = attrgetter(*[figure.field for figure in GAUGES])
_INSTANCE_FIELDS = instance_fields(GAUGES)
_STRIDE = len(GAUGES)


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
        "_absent_count",
        "_format",
        "_present",
        "_samples",
        "_slow_figures",
        "_unknown_gauges",
        "_unusual",
        "uuids",
    )

    def __init__(self, uuids: Sequence[str] = (), packed: bytes = b"") -> None:
        self._unusual = False
        self._unknown_gauges: list[int] = []
        self._set_uuids(tuple(uuids), ())
        samples = np.frombuffer(packed, self._format.dtype)  # refuses bytes that are not whole
        self._samples = [sample.tobytes() for sample in samples]

    @property
    def packed(self) -> bytes:
        """All samples, for a checkpoint."""
        return b"".join(self._samples)

    @property
    def since(self) -> float:
        """The time of the first sample; infinite where there is none."""
        return _time_of(self._samples[0]) if self._samples else inf

    def add_sample(self, at: float, sample: NodeSample) -> None:
        """Append the figures of a sample, without making a snapshot of them where that is easy."""
        own = sample.columns
        if own is not None and own.gpu_count == len(self.uuids):
            self._append_columns(at, sample.base.host, own)
            return
        figures = sample.newer_figures
        if figures is None or figures.instances[0]:
            self.add(at, sample.snapshot)
            return
        host = HostFigures(*figures.host)
        node = [read(host, sample.base.host) for read in _NODE_READERS]
        columns = [figures.gpus[position] for position in _GAUGE_COLUMNS]
        gauges: list[float | None] = list(chain.from_iterable(zip(*columns, strict=True)))
        self._append(at, node, gauges, figures)

    def _append_columns(self, at: float, host: Host, columns: NodeColumns) -> None:
        figures = columns.host
        node = [read(figures, host) for read in _NODE_READERS]
        # What is not measured is NaN already, and nothing is beyond its limits.
        packed = _NODE_GAUGES.pack(at, *node) + columns.packed_rows(_GAUGE_COLUMNS)
        slow = self._slow_figures.packed(at, columns, columns.gpu_count, self._format)
        self._samples.append(packed + slow)

    def add(self, at: float, snapshot: Snapshot) -> None:
        """Append the figures of a snapshot."""
        host = snapshot.host
        node = [read(host, host) for read in _NODE_READERS]
        gauges: list[float | None] = list(chain.from_iterable(map(_read_gauges, snapshot.gpus)))
        self._append(at, node, gauges, snapshot)

    def _append(
        self,
        at: float,
        node: list[float | None],
        gauges: list[float | None],
        source: Snapshot | SnapshotFigures,
    ) -> None:
        gpu_count = len(gauges) // _STRIDE
        # Many models never report some gauges; looking for these alone is cheap.
        for offset in self._unknown_gauges:
            if gauges[offset::_STRIDE].count(None) == gpu_count:
                gauges[offset::_STRIDE] = [nan] * gpu_count
        # Optimistic: most reports can then be packed as they are, and the others raise. An
        # exception is expensive: where the last report was unusual, this one is not tried.
        packed = b""
        if not self._unusual:
            try:
                packed = self._format.gauges.pack(at, *node, *gauges)
            except (struct.error, OverflowError):
                self._unusual = True
        packed = packed or self._pack_unusual(at, source, node, gauges)
        self._samples.append(
            packed + self._slow_figures.packed(at, source, gpu_count, self._format)
        )

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
        if self._absent_count:
            self._move_columns(self._present, self._known_absent())
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
        wanted = list(columns)
        first = max(0, self._count_before(nextafter(start, inf)) - 1)
        packed = b"".join(self._samples[first : self._count_before(end)])
        samples = np.frombuffer(packed, self._format.dtype)
        points = np.empty(len(samples) + 1)
        points[:-1], points[0], points[-1] = samples["at"], start, end
        durations = points[1:] - points[:-1]
        figures = samples["figures"][:, self._format.positions[wanted]].astype(np.float64)
        integrals = np.einsum("s,sf->f", durations, figures)
        seconds = [end - start] * len(wanted)
        # Any unknown figure makes the sum NaN: only then is it worth looking at each.
        if not isfinite(integrals.sum()):
            known = np.isfinite(figures)
            integrals = np.einsum("s,sf->f", durations, np.where(known, figures, 0.0))
            seconds = np.einsum("s,sf->f", durations, known).tolist()
        return dict(zip(wanted, zip(integrals.tolist(), seconds, strict=True), strict=True))

    def set_gpus(self, uuids: tuple[str, ...]) -> None:
        """Set the GPUs that are present from now on."""
        if uuids != self._present:
            self._move_columns(uuids, tuple([uuid for uuid in self.uuids if uuid not in uuids]))

    def clear(self) -> None:
        """Remove all samples."""
        self._samples.clear()

    def _pack_unusual(
        self,
        at: float,
        source: Snapshot | SnapshotFigures,
        node: list[float | None],
        gauges: list[float | None],
    ) -> bytes:
        """Pack unknown or impossible figures, those of instances and of GPUs that have left."""
        columns = [gauges[offset::_STRIDE] for offset in range(_STRIDE)]
        self._unknown_gauges = [
            offset for offset, column in enumerate(columns) if column.count(None) == len(column)
        ]
        absent = [nan] * (_STRIDE * self._absent_count)
        others = [*instance_figures(source, _INSTANCE_FIELDS), *absent]
        unknown = gauges.count(None) - len(self._unknown_gauges) * (len(gauges) // _STRIDE)
        self._unusual = bool(others or unknown or None in node)
        return pack_figures(self._format.gauges, (at,), [*node, *gauges, *others])

    def _known_absent(self) -> tuple[str, ...]:
        """The GPUs that have left, and of which the samples still have figures."""
        samples = np.frombuffer(b"".join(self._samples), self._format.dtype)
        known = np.isfinite(samples["figures"]).any(axis=0)
        first = len(self._present)
        return tuple(
            [
                uuid
                for number, uuid in enumerate(self.uuids[first:], first)
                if known[self._format.positions[gpu_offset(number) : gpu_offset(number + 1)]].any()
            ]
        )

    def _count_before(self, end: float) -> int:
        return bisect_left(self._samples, end, key=_time_of)

    def _unknown(self, at: float) -> bytes:
        sample = np.full(1, nan, self._format.dtype)
        sample["at"] = at
        return sample.tobytes()

    def _set_uuids(self, present: tuple[str, ...], absent: tuple[str, ...]) -> None:
        self._present, self.uuids = present, (*present, *absent)
        self._absent_count = len(absent)
        self._format = sample_format(len(self.uuids))
        self._slow_figures = SlowFigures()  # counters of other GPUs do not count

    def _move_columns(self, present: tuple[str, ...], absent: tuple[str, ...]) -> None:
        """Repack all samples with the columns of other GPUs."""
        (_, _, _, dtype, old), old_uuids = self._format, self.uuids
        before = np.frombuffer(b"".join(self._samples), dtype)
        self._set_uuids(present, absent)
        after, new = np.full(len(before), nan, self._format.dtype), self._format.positions
        after["at"] = before["at"]
        for target, source in column_moves(old_uuids, self.uuids):
            after["figures"][:, new[target]] = before["figures"][:, old[source]]
        self._samples = [sample.tobytes() for sample in after]


def device_uuids(snapshot: Snapshot) -> tuple[str, ...]:
    """The order of GPU columns for a snapshot: all GPUs, then the instances of all of them."""
    instances = [instance.uuid for gpu in snapshot.gpus for instance in gpu.instances]
    return (*[gpu.uuid for gpu in snapshot.gpus], *instances)


def _time_of(sample: bytes) -> float:
    at: float = _TIME.unpack_from(sample)[0]
    return at


def _with_time(at: float, sample: bytes) -> bytes:
    return _TIME.pack(at) + sample[_TIME.size :]
