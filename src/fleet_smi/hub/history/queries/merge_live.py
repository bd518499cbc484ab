"""Merge of stored rows with live ones: open intervals, and rows that are not written yet.

An open interval may be stored as well, as ended: that is written when its node falls silent. The
live one is newer, so it replaces the stored one with the same start.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeVar

from fleet_smi.hub.history.queries.snapshot_at import FigureValues, GpuAt, NodeAt
from fleet_smi.hub.history.recording.rows import NodeRow, Presence, WriteBatch
from fleet_smi.hub.history.series.codec import MEAN, slice_row_at, unpack
from fleet_smi.hub.history.series.layout import GPU_COLUMNS, NODE_COLUMNS, gpu_offset
from fleet_smi.hub.history.series.series_row import GpuKey, SeriesRow
from fleet_smi.hub.history.series.strip_samples import GpuStripSamples, SampleTimes, encode_load
from fleet_smi.model.heat_strip import StripInterval, period_look, unknown_samples
from fleet_smi.model.history import (
    GpuOccupancies,
    GpuOfNode,
    GpuPeriods,
    Occupancy,
    Period,
)

_start = itemgetter(0)
_Interval = TypeVar("_Interval", Period, Occupancy)


def merge_batches(unwritten: Iterable[WriteBatch], open_batch: WriteBatch) -> WriteBatch:
    """Join batches that are not written yet with the open intervals, which come last and win."""
    # Usage is left out: totals are summed in SQL, so it is written before it is queried.
    merged = WriteBatch()
    for batch in (*unwritten, open_batch):
        merged.nodes += batch.nodes
        merged.gpus += batch.gpus
        merged.periods += batch.periods
        merged.remove_occupancies(batch.removed_occupancies)
        merged.occupancies += batch.occupancies
        merged.presence += batch.presence
        merged.series += batch.series
    return merged


def filter_batch(start: float, end: float, batch: WriteBatch) -> WriteBatch:
    """The rows of a batch that overlap a range."""
    return WriteBatch(
        nodes=batch.nodes,
        gpus=batch.gpus,
        periods=[item for item in batch.periods if _overlaps(item[1], start, end)],
        removed_occupancies=batch.removed_occupancies,
        occupancies=[item for item in batch.occupancies if _overlaps(item[1], start, end)],
        presence=[interval for interval in batch.presence if _overlaps(interval, start, end)],
    )


def merge_nodes(stored: Iterable[NodeRow], live: WriteBatch) -> list[NodeRow]:
    """Every node with its latest name."""
    return list({row.node_id: row for row in (*stored, *live.nodes)}.values())


def merge_gpus(stored: Iterable[GpuOfNode], live: WriteBatch) -> list[GpuOfNode]:
    """Every GPU and instance with its latest description."""
    return list({_gpu_key(gpu): gpu for gpu in (*stored, *live.gpus)}.values())


def merge_periods(
    stored: Iterable[GpuPeriods], gpus: Iterable[GpuOfNode], live: WriteBatch
) -> list[GpuPeriods]:
    """The periods of these GPUs, open ones included."""
    by_gpu = {_gpu_key(row.gpu): {period.start: period for period in row.periods} for row in stored}
    for gpu_key, period in live.periods:
        by_gpu.setdefault(gpu_key, {})[period.start] = period
    return [
        GpuPeriods(gpu=gpu, periods=_in_order(by_gpu[_gpu_key(gpu)].values()))
        for gpu in gpus
        if _gpu_key(gpu) in by_gpu
    ]


def merge_strip_intervals(
    stored: Iterable[tuple[GpuOfNode, Sequence[StripInterval]]], live: WriteBatch
) -> dict[GpuKey, Sequence[StripInterval]]:
    """The strip intervals of GPUs, open ones included."""
    by_gpu = {_gpu_key(gpu): of_gpu for gpu, of_gpu in stored}
    live_by_gpu: dict[GpuKey, dict[float, StripInterval]] = {}
    for gpu_key, period in live.periods:
        interval = period.start, period.end, period_look(period), period.busy_percent
        live_by_gpu.setdefault(gpu_key, {})[period.start] = interval
    for gpu_key, live_intervals in live_by_gpu.items():
        intervals = {interval[0]: interval for interval in by_gpu.get(gpu_key, ())}
        by_gpu[gpu_key] = sorted((intervals | live_intervals).values(), key=_start)
    return by_gpu


def merge_strip_samples(
    stored: GpuStripSamples, times: SampleTimes, live: WriteBatch
) -> GpuStripSamples:
    """The strip samples of GPUs, overwritten where a live period covers them."""
    look_ids = {look: look_id for look_id, look in stored.looks.items()}
    for gpu_key, period in live.periods:
        covered = times.indices_between(period.start, period.end)
        count = covered.stop - covered.start
        if count:
            samples = stored.gpus.get(gpu_key)
            if samples is None:
                samples = stored.gpus[gpu_key] = unknown_samples(len(times.numbers))
            # Looks that are not stored yet get negative ids, which no stored look has.
            look_id = look_ids.setdefault(period_look(period), -len(look_ids) - 1)
            samples.looks[covered] = [look_id] * count
            samples.loads[covered] = bytes([encode_load(period.busy_percent)]) * count
    return GpuStripSamples(stored.gpus, {look_id: look for look, look_id in look_ids.items()})


def merge_occupancies(
    stored: Iterable[GpuOccupancies], gpus: Iterable[GpuOfNode], live: WriteBatch
) -> list[GpuOccupancies]:
    """The occupancies of these GPUs, open ones included."""
    by_gpu = {
        _gpu_key(row.gpu): {(entry.start, entry.holder.pid): entry for entry in row.occupancies}
        for row in stored
    }
    for gpu_key, start, pid in live.removed_occupancies:
        by_gpu.get(gpu_key, {}).pop((start, pid), None)
    for gpu_key, occupancy in live.occupancies:
        key = occupancy.start, occupancy.holder.pid
        by_gpu.setdefault(gpu_key, {})[key] = occupancy
    return [
        GpuOccupancies(gpu=gpu, occupancies=_in_order(by_gpu[_gpu_key(gpu)].values()))
        for gpu in gpus
        if by_gpu.get(_gpu_key(gpu))
    ]


class StoredRowsAt(NamedTuple):
    """The stored rows that hold at one time: of each kind the last that began by then."""

    nodes: Sequence[NodeRow]
    presence: Sequence[Presence]
    gpus: Sequence[GpuOfNode]
    periods: Sequence[tuple[GpuOfNode, Period]]
    series: Sequence[SeriesRow]


def nodes_at(at: float, stored: StoredRowsAt, live: WriteBatch) -> list[NodeAt]:
    """Each node as of a time; nodes that had not reported yet are left out."""
    presence = {interval.node_id: interval for interval in stored.presence}
    for interval in live.presence:
        known = presence.get(interval.node_id)
        # A live interval may be older than the stored one: late reports fill gaps.
        if interval.start <= at and (known is None or known.start <= interval.start):
            presence[interval.node_id] = interval
    figures = {row.node_id: _mean_figures(row) for row in _rows_at(at, stored, live)}
    gpus: dict[str, list[GpuAt]] = {}
    for gpu, period, since in _gpus_at(at, stored, live):
        of_gpu = figures.get(gpu.node_id, {}).get(gpu.uuid, {})
        gpu_at = GpuAt(gpu=gpu, period=period, since=since, figures=of_gpu)
        gpus.setdefault(gpu.node_id, []).append(gpu_at)
    return [
        NodeAt(
            node=node,
            presence=presence[node.node_id],
            gpus=tuple(gpus.get(node.node_id, ())),
            figures=figures.get(node.node_id, {}).get("", {}),
        )
        for node in stored.nodes
        if node.node_id in presence
    ]


def _rows_at(at: float, stored: StoredRowsAt, live: WriteBatch) -> Iterable[SeriesRow]:
    """The finest row of each node that contains a time."""
    finest = {row.node_id: row for row in stored.series}
    for row in live.series:
        single, known = slice_row_at(row, at), finest.get(row.node_id)
        if single is not None and (known is None or single.grain_seconds <= known.grain_seconds):
            finest[row.node_id] = single
    return finest.values()


def _gpus_at(
    at: float, stored: StoredRowsAt, live: WriteBatch
) -> Iterator[tuple[GpuOfNode, Period, float]]:
    """Each GPU with its last period that began by `at`, and the start of its state."""
    started = {_gpu_key(gpu): [period] for gpu, period in stored.periods}
    for gpu_key, period in live.periods:
        if period.start <= at:
            started.setdefault(gpu_key, []).append(period)
    for gpu in stored.gpus:
        if _gpu_key(gpu) in started:
            # Of two with the same start the live one, which comes later, wins.
            by_start = {period.start: period for period in started[_gpu_key(gpu)]}
            # With a single period both are the same, which gives its own start.
            last_two = sorted(by_start.items())[-2:]
            period = last_two[-1][1]
            yield gpu, period, _state_since(last_two[0][1], period)


def _state_since(previous: Period, period: Period) -> float:
    """The start of the state: a change of processes begins a period without changing it."""
    if (previous.state, previous.end) == (period.state, period.start):
        return previous.start
    return period.start


def _mean_figures(row: SeriesRow) -> dict[str, FigureValues]:
    """The means of all figures: of each GPU by its UUID, of the node by an empty string."""
    arrays = unpack([row.start], row.data, len(row.uuids), row.layout)
    # Only NaN, which is unknown, differs from itself.
    means = [None if value != value else value for value in arrays.values[0, MEAN].tolist()]
    figures: dict[str, FigureValues] = {"": dict(zip(NODE_COLUMNS, means, strict=False))}
    for index, uuid in enumerate(row.uuids):
        figures[uuid] = dict(zip(GPU_COLUMNS, means[gpu_offset(index) :], strict=False))
    return figures


def _gpu_key(gpu: GpuOfNode) -> GpuKey:
    return gpu.node_id, gpu.uuid


def _overlaps(interval: Period | Occupancy | Presence, start: float, end: float) -> bool:
    return interval.start < end and (interval.end is None or interval.end > start)


def _in_order(intervals: Iterable[_Interval]) -> tuple[_Interval, ...]:
    return tuple(sorted(intervals, key=attrgetter("start")))
