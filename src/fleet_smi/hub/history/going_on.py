"""What has ended, from the database, joined with what goes on, from memory.

In memory is also what ended a moment ago and waits to be written. What goes on may stand in
the database too: of a node that was silent for a while it was written that all had ended.
What is in memory knows better.
"""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import NamedTuple, TypeVar

from fleet_smi.hub.history.grains import GPU_FIGURES, MEAN, NODE_FIGURES, first_of, part_at, unpack
from fleet_smi.hub.history.past import Figures, GpuThen, NodeThen
from fleet_smi.hub.history.rows import Batch, NodeRow, Place, Presence, SeriesRow
from fleet_smi.hub.history.samples import Moments, Sampled, load_byte
from fleet_smi.model.history import (
    GpuOccupancies,
    GpuOfNode,
    GpuPeriods,
    Occupancy,
    Period,
)
from fleet_smi.model.strip import Stood, look_of, unheard

_KIB = 1024
_start = itemgetter(0)
_Stretch = TypeVar("_Stretch", Period, Occupancy)


def together(unwritten: Iterable[Batch], opened: Batch) -> Batch:
    """What has ended a moment ago, then what goes on: that knows better where both tell of one."""
    joined = Batch()
    for batch in (*unwritten, opened):
        joined.nodes += batch.nodes
        joined.gpus += batch.gpus
        joined.periods += batch.periods
        joined.occupancies += batch.occupancies
        joined.presence += batch.presence
        joined.series += batch.series
    return joined


def between(start: float, end: float, known: Batch) -> Batch:
    """What of it was in a range."""
    return Batch(
        nodes=known.nodes,
        gpus=known.gpus,
        periods=[each for each in known.periods if _overlaps(each[1], start, end)],
        occupancies=[each for each in known.occupancies if _overlaps(each[1], start, end)],
        presence=[each for each in known.presence if _overlaps(each, start, end)],
    )


def with_new_nodes(written: Iterable[NodeRow], going_on: Batch) -> list[NodeRow]:
    """Every node, as it is called now."""
    return list({row.node_id: row for row in (*written, *going_on.nodes)}.values())


def with_new_gpus(written: Iterable[GpuOfNode], going_on: Batch) -> list[GpuOfNode]:
    """Every GPU and instance, as it is known now."""
    return list({_place(gpu): gpu for gpu in (*written, *going_on.gpus)}.values())


def with_open_periods(
    ended: Iterable[GpuPeriods], gpus: Iterable[GpuOfNode], going_on: Batch
) -> list[GpuPeriods]:
    """How these GPUs stood, those that still stand so among them."""
    stretches = {_place(row.gpu): {one.start: one for one in row.periods} for row in ended}
    for place, period in going_on.periods:
        stretches.setdefault(place, {})[period.start] = period
    return [
        GpuPeriods(gpu=gpu, periods=_in_order(stretches[_place(gpu)].values()))
        for gpu in gpus
        if _place(gpu) in stretches
    ]


def with_open_looks(
    ended: Iterable[tuple[GpuOfNode, Sequence[Stood]]], going_on: Batch
) -> dict[Place, Sequence[Stood]]:
    """How GPUs looked, those that still look so among them."""
    stood = {_place(gpu): looks for gpu, looks in ended}
    known: dict[Place, dict[float, Stood]] = {}
    for place, period in going_on.periods:
        stretch = period.start, period.end, look_of(period), period.busy_percent
        known.setdefault(place, {})[period.start] = stretch
    for place, stretches in known.items():
        before = {one[0]: one for one in stood.get(place, ())}
        stood[place] = sorted((before | stretches).values(), key=_start)
    return stood


def with_open_samples(found: Sampled, moments: Moments, going_on: Batch) -> Sampled:
    """How GPUs looked at these moments, those that still look so among them."""
    number_of = {look: number for number, look in found.looks.items()}
    for place, period in going_on.periods:
        these = moments.within(period.start, period.end)
        count = these.stop - these.start
        if count:
            samples = found.gpus.get(place)
            if samples is None:
                samples = found.gpus[place] = unheard(len(moments.numbers))
            # Numbers of looks that nobody wrote down yet are told from others by their sign.
            look = number_of.setdefault(look_of(period), -len(number_of) - 1)
            samples.looks[these] = [look] * count
            samples.loads[these] = bytes([load_byte(period.busy_percent)]) * count
    return Sampled(found.gpus, {number: look for look, number in number_of.items()})


def with_open_occupancies(
    ended: Iterable[GpuOccupancies], gpus: Iterable[GpuOfNode], going_on: Batch
) -> list[GpuOccupancies]:
    """Who was on these GPUs, those who still are among them."""
    stretches = {
        _place(row.gpu): {(one.start, one.holder.pid): one for one in row.occupancies}
        for row in ended
    }
    for place, occupancy in going_on.occupancies:
        key = occupancy.start, occupancy.holder.pid
        stretches.setdefault(place, {})[key] = occupancy
    return [
        GpuOccupancies(gpu=gpu, occupancies=_in_order(stretches[_place(gpu)].values()))
        for gpu in gpus
        if _place(gpu) in stretches
    ]


class Written(NamedTuple):
    """What the database has of a moment: the last of everything that had begun by then."""

    nodes: Sequence[NodeRow]
    presence: Sequence[Presence]
    gpus: Sequence[GpuOfNode]
    periods: Sequence[tuple[GpuOfNode, Period]]
    series: Sequence[SeriesRow]


def nodes_then(at: float, written: Written, going_on: Batch) -> list[NodeThen]:
    """What was known of each node at a moment; those that were not known yet are left out."""
    heard = {one.node_id: one for one in written.presence}
    for one in going_on.presence:
        if one.start <= at and (one.node_id not in heard or heard[one.node_id].start <= one.start):
            heard[one.node_id] = one
    figures = {row.node_id: _figures(row) for row in _rows_then(at, written, going_on)}
    parts: dict[str, list[GpuThen]] = {}
    for gpu, period, since in _gpus_then(at, written, going_on):
        known = figures.get(gpu.node_id, {}).get(gpu.uuid, {})
        part = GpuThen(gpu=gpu, period=period, since=since, figures=known)
        parts.setdefault(gpu.node_id, []).append(part)
    return [
        NodeThen(
            node=node,
            presence=heard[node.node_id],
            gpus=tuple(parts.get(node.node_id, ())),
            figures=figures.get(node.node_id, {}).get("", {}),
        )
        for node in written.nodes
        if node.node_id in heard
    ]


def _rows_then(at: float, written: Written, going_on: Batch) -> Iterable[SeriesRow]:
    """The finest row of each node that there is of a moment."""
    finest = {row.node_id: row for row in written.series}
    for row in going_on.series:
        part, known = part_at(row, at), finest.get(row.node_id)
        if part is not None and (known is None or part.grain_seconds <= known.grain_seconds):
            finest[row.node_id] = part
    return finest.values()


def _gpus_then(
    at: float, written: Written, going_on: Batch
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


def _figures(row: SeriesRow) -> dict[str, Figures]:
    """The mean of each figure, of each GPU by its UUID and of the node by none."""
    values = unpack([row.start], row.data, len(row.uuids)).values[0, MEAN].tolist()
    mean = [None if value != value else value for value in values]
    found: dict[str, Figures] = {"": dict(zip(NODE_FIGURES, mean, strict=False))}
    for place, uuid in enumerate(row.uuids):
        figures = dict(zip(GPU_FIGURES, mean[first_of(place) :], strict=False))
        memory = figures.pop("memory_used_gibibytes")
        figures["memory_used_mebibytes"] = None if memory is None else memory * _KIB
        found[uuid] = figures
    return found


def _place(gpu: GpuOfNode) -> Place:
    return gpu.node_id, gpu.uuid


def _overlaps(stretch: Period | Occupancy | Presence, start: float, end: float) -> bool:
    return stretch.start < end and (stretch.end is None or stretch.end > start)


def _in_order(stretches: Iterable[_Stretch]) -> tuple[_Stretch, ...]:
    return tuple(sorted(stretches, key=attrgetter("start")))
