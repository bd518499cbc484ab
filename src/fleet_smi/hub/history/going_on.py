"""What has ended, from the database, joined with what goes on, from memory.

What goes on may stand in the database too: of a node that was silent for a while it was
written that all had ended. What is in memory knows better.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from fleet_smi.hub.history.grains import GPU_FIGURES, NODE_FIGURES, first_of, unpack
from fleet_smi.hub.history.past import Figures, GpuThen, NodeThen
from fleet_smi.hub.history.rows import Batch, NodeRow, Place, Presence, SeriesRow
from fleet_smi.model.history import (
    GpuOccupancies,
    GpuOfNode,
    GpuPeriods,
    Occupancy,
    Period,
)
from fleet_smi.model.strip import Stood, look_of

_KIB = 1024
_Stretch = TypeVar("_Stretch", Period, Occupancy)


def with_open_periods(
    ended: Iterable[GpuPeriods], gpus: Iterable[GpuOfNode], going_on: Batch, end: float
) -> list[GpuPeriods]:
    """How these GPUs stood up to `end`, those that still stand so among them."""
    stretches = {_place(row.gpu): {one.start: one for one in row.periods} for row in ended}
    for place, period in going_on.periods:
        if period.start < end:
            stretches.setdefault(place, {})[period.start] = period
    return [
        GpuPeriods(gpu=gpu, periods=_in_order(stretches[_place(gpu)].values()))
        for gpu in gpus
        if _place(gpu) in stretches
    ]


def with_open_looks(
    ended: Iterable[tuple[GpuOfNode, Sequence[Stood]]], going_on: Batch, end: float
) -> dict[Place, Sequence[Stood]]:
    """How GPUs looked up to `end`, those that still look so among them."""
    stood = {_place(gpu): looks for gpu, looks in ended}
    for place, period in going_on.periods:
        if period.start < end:
            before = [one for one in stood.get(place, ()) if one[0] < period.start]
            stood[place] = [*before, (period.start, period.end, look_of(period))]
    return stood


def with_open_occupancies(
    ended: Iterable[GpuOccupancies], gpus: Iterable[GpuOfNode], going_on: Batch, end: float
) -> list[GpuOccupancies]:
    """Who was on these GPUs up to `end`, those who still are among them."""
    stretches = {
        _place(row.gpu): {(one.start, one.holder.pid): one for one in row.occupancies}
        for row in ended
    }
    for place, occupancy in going_on.occupancies:
        if occupancy.start < end:
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
    heard.update({one.node_id: one for one in going_on.presence if one.start <= at})
    figures = {row.node_id: _figures(row) for row in written.series}
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


def _gpus_then(
    at: float, written: Written, going_on: Batch
) -> Iterator[tuple[GpuOfNode, Period, float]]:
    """Each GPU with its last period that had begun, and since when it stood that way."""
    ended = {_place(gpu): period for gpu, period in written.periods}
    opened = {place: period for place, period in going_on.periods if period.start <= at}
    for gpu in written.gpus:
        before, period = ended.get(_place(gpu)), opened.get(_place(gpu))
        if period is not None:
            yield gpu, period, _since(before, period)
        elif before is not None:
            yield gpu, before, before.start


def _since(before: Period | None, period: Period) -> float:
    """When a state began that may have gone on while people came and went."""
    if before is not None and (before.state, before.end) == (period.state, period.start):
        return before.start
    return period.start


def _figures(row: SeriesRow) -> dict[str, Figures]:
    """The mean of each figure, of each GPU by its UUID and of the node by none."""
    mean = [None if value != value else value for value in unpack(row.data).mean]
    found: dict[str, Figures] = {"": dict(zip(NODE_FIGURES, mean, strict=False))}
    for place, uuid in enumerate(row.uuids):
        figures = dict(zip(GPU_FIGURES, mean[first_of(place) :], strict=False))
        memory = figures.pop("memory_used_gibibytes")
        figures["memory_used_mebibytes"] = None if memory is None else memory * _KIB
        found[uuid] = figures
    return found


def _place(gpu: GpuOfNode) -> Place:
    return gpu.node_id, gpu.uuid


def _in_order(stretches: Iterable[_Stretch]) -> tuple[_Stretch, ...]:
    return tuple(sorted(stretches, key=lambda one: one.start))
