"""Figures of which only the mean is stored, counters among them: read every few seconds."""

from collections.abc import Iterable, Sequence
from itertools import chain
from math import inf, nan
from operator import attrgetter
from typing import Any

from fleet_smi.fleet.node_columns import NodeColumns
from fleet_smi.hub.history.series.sample_format import (
    SLOW_FIGURES,
    SampleFormat,
    instance_fields,
    instance_figures,
    pack_figures,
)
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.model.snapshot_figures import GPU_FIELDS, SnapshotFigures
from fleet_smi.model.verdict.throttling import throttle_kind

# A mean needs few samples, and the growth of a counter is exact however seldom it is compared:
# reading these figures with every sample would cost as much again as the gauges.
_MIN_SECONDS = 15.0
_read_gpu = attrgetter(*[figure.field for figure in SLOW_FIGURES])
_COLUMNS = tuple([GPU_FIELDS.index(figure.field) for figure in SLOW_FIGURES])
_INSTANCE_FIELDS = instance_fields(SLOW_FIGURES)
_STRIDE = len(SLOW_FIGURES)
_COUNTER_OFFSETS = [
    offset for offset, figure in enumerate(SLOW_FIGURES) if figure.history == "counter"
]
_THROTTLED_OFFSETS = [
    offset for offset, figure in enumerate(SLOW_FIGURES) if figure.history == "throttled"
]


class SlowFigures:
    """The slow figures of one node as they were last read; counters as their growth per second."""

    __slots__ = ("_at", "_figures", "_gpu_count", "_packed")

    def __init__(self) -> None:
        self._at = -inf
        self._gpu_count = -1
        self._figures: list[Any] = []
        self._packed = b""

    def packed(
        self,
        at: float,
        source: Snapshot | SnapshotFigures | NodeColumns,
        gpu_count: int,
        sample_format: SampleFormat,
    ) -> bytes:
        """The last part of a sample; unknown figures and unknown growth are NaN."""
        if not 0.0 <= at - self._at < _MIN_SECONDS or gpu_count != self._gpu_count:
            self._packed = self._read(at, source, gpu_count, sample_format)
        return self._packed

    def _read(
        self,
        at: float,
        source: Snapshot | SnapshotFigures | NodeColumns,
        gpu_count: int,
        sample_format: SampleFormat,
    ) -> bytes:
        rows: Iterable[Sequence[Any]]
        if isinstance(source, Snapshot):
            rows = map(_read_gpu, source.gpus)
        elif isinstance(source, SnapshotFigures):
            rows = zip(*[source.gpus[position] for position in _COLUMNS], strict=True)
        else:
            rows = zip(*[source.column(position) for position in _COLUMNS], strict=True)
        figures = list(chain.from_iterable(rows))
        elapsed = at - self._at
        comparable = elapsed > 0.0 and gpu_count == self._gpu_count
        before = self._figures if comparable else [None] * len(figures)
        values = figures.copy()
        for offset in _COUNTER_OFFSETS:
            old, new = before[offset::_STRIDE], figures[offset::_STRIDE]
            values[offset::_STRIDE] = _growth_per_second(old, new, elapsed)
        for offset in _THROTTLED_OFFSETS:
            values[offset::_STRIDE] = map(_throttled_percent, figures[offset::_STRIDE])
        self._at, self._gpu_count, self._figures = at, gpu_count, figures
        if sample_format.gpu_count > gpu_count:  # it has instances, or GPUs that are absent now
            if isinstance(source, Snapshot | SnapshotFigures):
                values += instance_figures(source, _INSTANCE_FIELDS)
            values += [None] * (_STRIDE * sample_format.gpu_count - len(values))
        return pack_figures(sample_format.slow, (), values)


def _throttled_percent(reasons: tuple[str, ...] | None) -> float | None:
    """Return 100 where a reason slows the GPU down: the mean over time is the share of it."""
    if reasons is None:
        return None
    return 0.0 if throttle_kind(reasons) is None else 100.0


def _growth_per_second(
    before: Sequence[float | None], after: Sequence[float | None], elapsed: float
) -> list[float]:
    """Compare a counter of each GPU; where it became smaller, it was reset in between."""
    return [
        nan if old is None or new is None or new < old else (new - old) / elapsed
        for old, new in zip(before, after, strict=True)
    ]
