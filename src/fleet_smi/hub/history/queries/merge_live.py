"""What has ended, from the database, joined with what goes on, from memory.

In memory is also what ended a moment ago and waits to be written. What goes on may stand in
the database too: of a node that was silent for a while it was written that all had ended.
What is in memory knows better.
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
_Stretch = TypeVar("_Stretch", Period, Occupancy)


def merge_batches(unwritten: Iterable[WriteBatch], open_batch: WriteBatch) -> WriteBatch:
    """What has ended a moment ago, then what goes on: that knows better where both tell of one."""
    joined = WriteBatch()
    for batch in (*unwritten, open_batch):
        joined.nodes += batch.nodes
        joined.gpus += batch.gpus
        joined.periods += batch.periods
        joined.occupancies += batch.occupancies
        joined.presence += batch.presence
        joined.series += batch.series
    return joined


def filter_batch(start: float, end: float, batch: WriteBatch) -> WriteBatch:
    """What of it was in a range."""
    return WriteBatch(
        nodes=batch.nodes,
        gpus=batch.gpus,
        periods=[each for each in batch.periods if _overlaps(each[1], start, end)],
        occupancies=[each for each in batch.occupancies if _overlaps(each[1], start, end)],
        presence=[each for each in batch.presence if _overlaps(each, start, end)],
    )


def merge_nodes(saved: Iterable[NodeRow], live: WriteBatch) -> list[NodeRow]:
    """Every node, as it is called now."""
    return list({row.node_id: row for row in (*saved, *live.nodes)}.values())


def merge_gpus(saved: Iterable[GpuOfNode], live: WriteBatch) -> list[GpuOfNode]:
    """Every GPU and instance, as it is known now."""
    return list({_place(gpu): gpu for gpu in (*saved, *live.gpus)}.values())


def merge_periods(
    saved: Iterable[GpuPeriods], gpus: Iterable[GpuOfNode], live: WriteBatch
) -> list[GpuPeriods]:
    """How these GPUs stood, those that still stand so among them."""
    stretches = {_place(row.gpu): {one.start: one for one in row.periods} for row in saved}
    for place, period in live.periods:
        stretches.setdefault(place, {})[period.start] = period
    return [
        GpuPeriods(gpu=gpu, periods=_in_order(stretches[_place(gpu)].values()))
        for gpu in gpus
        if _place(gpu) in stretches
    ]


def merge_strip_intervals(
    saved: Iterable[tuple[GpuOfNode, Sequence[StripInterval]]], live: WriteBatch
) -> dict[GpuKey, Sequence[StripInterval]]:
    """How GPUs looked, those that still look so among them."""
    stood = {_place(gpu): looks for gpu, looks in saved}
    known: dict[GpuKey, dict[float, StripInterval]] = {}
    for place, period in live.periods:
        stretch = period.start, period.end, period_look(period), period.busy_percent
        known.setdefault(place, {})[period.start] = stretch
    for place, stretches in known.items():
        before = {one[0]: one for one in stood.get(place, ())}
        stood[place] = sorted((before | stretches).values(), key=_start)
    return stood


def merge_strip_samples(
    saved: GpuStripSamples, times: SampleTimes, live: WriteBatch
) -> GpuStripSamples:
    """How GPUs looked at these moments, those that still look so among them."""
    number_of = {look: number for number, look in saved.looks.items()}
    for place, period in live.periods:
        these = times.indices_between(period.start, period.end)
        count = these.stop - these.start
        if count:
            samples = saved.gpus.get(place)
            if samples is None:
                samples = saved.gpus[place] = unknown_samples(len(times.numbers))
            # Numbers of looks that nobody wrote down yet are told from others by their sign.
            look = number_of.setdefault(period_look(period), -len(number_of) - 1)
            samples.looks[these] = [look] * count
            samples.loads[these] = bytes([encode_load(period.busy_percent)]) * count
    return GpuStripSamples(saved.gpus, {number: look for look, number in number_of.items()})


def merge_occupancies(
    saved: Iterable[GpuOccupancies], gpus: Iterable[GpuOfNode], live: WriteBatch
) -> list[GpuOccupancies]:
    """Who was on these GPUs, those who still are among them."""
    stretches = {
        _place(row.gpu): {(one.start, one.holder.pid): one for one in row.occupancies}
        for row in saved
    }
    for place, occupancy in live.occupancies:
        key = occupancy.start, occupancy.holder.pid
        stretches.setdefault(place, {})[key] = occupancy
    return [
        GpuOccupancies(gpu=gpu, occupancies=_in_order(stretches[_place(gpu)].values()))
        for gpu in gpus
        if _place(gpu) in stretches
    ]


class SavedSnapshot(NamedTuple):
    """What the database has of a moment: the last of everything that had begun by then."""

    nodes: Sequence[NodeRow]
    presence: Sequence[Presence]
    gpus: Sequence[GpuOfNode]
    periods: Sequence[tuple[GpuOfNode, Period]]
    series: Sequence[SeriesRow]


def nodes_at(at: float, saved: SavedSnapshot, live: WriteBatch) -> list[NodeAt]:
    """What was known of each node at a moment; those that were not known yet are left out."""
    heard = {one.node_id: one for one in saved.presence}
    for one in live.presence:
        if one.start <= at and (one.node_id not in heard or heard[one.node_id].start <= one.start):
            heard[one.node_id] = one
    figures = {row.node_id: _figures(row) for row in _rows_then(at, saved, live)}
    parts: dict[str, list[GpuAt]] = {}
    for gpu, period, since in _gpus_then(at, saved, live):
        known = figures.get(gpu.node_id, {}).get(gpu.uuid, {})
        part = GpuAt(gpu=gpu, period=period, since=since, figures=known)
        parts.setdefault(gpu.node_id, []).append(part)
    return [
        NodeAt(
            node=node,
            presence=heard[node.node_id],
            gpus=tuple(parts.get(node.node_id, ())),
            figures=figures.get(node.node_id, {}).get("", {}),
        )
        for node in saved.nodes
        if node.node_id in heard
    ]


def _rows_then(at: float, written: SavedSnapshot, going_on: WriteBatch) -> Iterable[SeriesRow]:
    """The finest row of each node that there is of a moment."""
    finest = {row.node_id: row for row in written.series}
    for row in going_on.series:
        part, known = slice_row_at(row, at), finest.get(row.node_id)
        if part is not None and (known is None or part.grain_seconds <= known.grain_seconds):
            finest[row.node_id] = part
    return finest.values()


def _gpus_then(
    at: float, written: SavedSnapshot, going_on: WriteBatch
) -> Iterator[tuple[GpuOfNode, Period, float]]:
    """Each GPU with its last period that had begun, and since when it stood that way."""
    begun = {_place(gpu): [period] for gpu, period in written.periods}
    for place, period in going_on.periods:
        if period.start <= at:
            begun.setdefault(place, []).append(period)
    for gpu in written.gpus:
        if _place(gpu) in begun:
            # Of two that began at once the latter counts: it knows better.
            last_two = sorted({one.start: one for one in begun[_place(gpu)]}.items())[-2:]
            period = last_two[-1][1]
            yield gpu, period, _since(last_two[0][1], period)


def _since(before: Period, period: Period) -> float:
    """When a state began that may have gone on while people came and went."""
    if (before.state, before.end) == (period.state, period.start):
        return before.start
    return period.start


def _figures(row: SeriesRow) -> dict[str, FigureValues]:
    """The mean of each figure, of each GPU by its UUID and of the node by none."""
    arrays = unpack([row.start], row.data, len(row.uuids), row.layout)
    means = [None if value != value else value for value in arrays.values[0, MEAN].tolist()]
    figures: dict[str, FigureValues] = {"": dict(zip(NODE_COLUMNS, means, strict=False))}
    for index, uuid in enumerate(row.uuids):
        figures[uuid] = dict(zip(GPU_COLUMNS, means[gpu_offset(index) :], strict=False))
    return figures


def _place(gpu: GpuOfNode) -> GpuKey:
    return gpu.node_id, gpu.uuid


def _overlaps(stretch: Period | Occupancy | Presence, start: float, end: float) -> bool:
    return stretch.start < end and (stretch.end is None or stretch.end > start)


def _in_order(stretches: Iterable[_Stretch]) -> tuple[_Stretch, ...]:
    return tuple(sorted(stretches, key=attrgetter("start")))
