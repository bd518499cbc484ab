"""Figures of many nodes for the stream, rounded and compared with those sent last in arrays.

Only of nodes whose figures are in columns (`figure_columns.py`) and of which nothing but
figures has changed; `stream_diff.py` does the rest.
"""

from collections.abc import Callable, Sequence
from functools import partial
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleet_smi.fleet.node_state import NodeState
from fleet_smi.hub.figure_columns import FigureColumns
from fleet_smi.hub.packed_batch import Flags, Numbers, Positions
from fleet_smi.hub.packed_layouts import enlarged
from fleet_smi.hub.placed_node import PlacedNode
from fleet_smi.hub.steady_columns import BUSY, MEMORY, POWER, TEMPERATURE
from fleet_smi.model.stream_payload import DeviceFigures, NodeFigures
from fleet_smi.model.stream_payload_builder import MAX_VALUE
from fleet_smi.model.units import MIB
from fleet_smi.wire.event import UNCHANGED, NodeFiguresDiff

_SHOWN = [BUSY, MEMORY, TEMPERATURE, POWER]  # in the order of `DeviceFigures`
_SHOWN_MEMORY = _SHOWN.index(MEMORY)
_SHOWN_COLUMNS = np.array(_SHOWN)


class ColumnNode(NamedTuple):
    """A node whose facts are as they were sent, by its number in the stream, with its marks."""

    number: int
    node: NodeState
    columns: PlacedNode
    marks: Sequence[int | None]


class ColumnDiff(NamedTuple):
    """The diff to the last published state, of the nodes whose figures alone may differ.

    `rest` are the numbers of the others. Of the `entered` ones nothing was sent from columns yet.
    """

    rows: list[NodeFiguresDiff]
    entered: list[int]
    rest: list[int]


class StreamColumns:
    """The figures of nodes as they were last sent."""

    def __init__(self) -> None:
        self._sent: dict[FigureColumns, _SentFigures] = {}
        self._places: dict[int, tuple[_SentFigures, int]] = {}

    def diff(self, nodes: Sequence[ColumnNode], now: float) -> ColumnDiff:
        """Compare nodes with what was sent last."""
        groups: dict[FigureColumns, list[ColumnNode]] = {}
        for node in nodes:
            groups.setdefault(node.columns.columns, []).append(node)
        found = ColumnDiff([], [], [])
        for columns, group in groups.items():
            sent = self._sent.get(columns)
            if sent is None:
                sent = self._sent[columns] = _SentFigures(columns)
            for number, place in sent.diff(group, now, found):
                if self._places.get(number, (sent, place)) != (sent, place):
                    self.forget(number)
                self._places[number] = sent, place
                found.entered.append(number)
        return found

    def figures(self, number: int) -> NodeFigures | None:
        """The figures of a node that were sent last; `None` if they were not from here."""
        found = self._places.get(number)
        return None if found is None else found[0].capture([found[1]])()[0]

    def capture(self) -> Callable[[], list[NodeFigures]]:
        """Copy all that were sent last from here; what is returned makes them, in any thread."""
        groups: dict[int, tuple[_SentFigures, list[int]]] = {}
        for sent, place in self._places.values():
            groups.setdefault(id(sent), (sent, []))[1].append(place)
        captured = [sent.capture(places) for sent, places in groups.values()]
        return lambda: [figures for make in captured for figures in make()]

    def forget(self, number: int) -> None:
        """Forget a node: it was sent otherwise, or is gone."""
        found = self._places.pop(number, None)
        if found is not None:
            found[0].forget(found[1], number)


class _SentFigures:
    """The figures last sent of the nodes that have places in some columns.

    `_numbers` are those of the nodes in the stream, 0 where nothing was sent. `_totals` is the
    memory of their machines.
    """

    def __init__(self, columns: FigureColumns) -> None:
        self._columns = columns
        self._numbers = np.zeros(0, np.int64)
        self._gpus = np.empty((0, columns.gpu_count, len(_SHOWN)))
        self._marks = np.empty((0, columns.gpu_count))
        self._nodes = np.empty((0, 3))
        self._totals = np.empty(0)

    def forget(self, place: int, number: int) -> None:
        if self._numbers[place] == number:
            self._numbers[place] = 0

    def capture(self, places: Sequence[int]) -> Callable[[], list[NodeFigures]]:
        chosen = np.array(places)
        return partial(_figures, self._numbers[chosen], self._nodes[chosen], self._gpus[chosen])

    def diff(
        self, group: Sequence[ColumnNode], now: float, found: ColumnDiff
    ) -> list[tuple[int, int]]:
        """Add what is found; return the numbers and places of the nodes that have entered."""
        places: Positions = np.array([columns.place for _, _, columns, _ in group])
        numbers = np.array([number for number, _, _, _ in group])
        if (size := len(self._columns.times)) > len(self._numbers):
            self._resize(size)
        is_known = self._numbers[places] == numbers
        if not is_known.all():
            self._learn([group[at] for at in (~is_known).nonzero()[0].tolist()])
        is_same = (self._marks[places] == self._columns.marks(places)).all(axis=1)
        if not is_same.all():
            found.rest.extend(numbers[~is_same].tolist())
            places, numbers, is_known = places[is_same], numbers[is_same], is_known[is_same]
        gpus, nodes = self._shown(places, now)
        gpus_changed = _differ(gpus, self._gpus[places]) | ~is_known[:, None, None]
        nodes_changed = _differ(nodes, self._nodes[places]) | ~is_known[:, None]
        self._gpus[places], self._nodes[places], self._numbers[places] = gpus, nodes, numbers
        parts_changed = gpus_changed.any(axis=2)
        has_changed = nodes_changed.any(axis=1) | parts_changed.any(axis=1)
        found.rows.extend(
            _rows(
                numbers[has_changed],
                gpus[has_changed],
                gpus_changed[has_changed],
                nodes[has_changed],
                nodes_changed[has_changed],
            )
        )
        entered = ~is_known
        return list(zip(numbers[entered].tolist(), places[entered].tolist(), strict=True))

    def _learn(self, nodes: Sequence[ColumnNode]) -> None:
        """Note what is the same until a node is sent otherwise."""
        places = [columns.place for _, _, columns, _ in nodes]
        self._marks[places] = [
            [nan if mark is None else float(mark) for mark in marks] for _, _, _, marks in nodes
        ]
        totals = [node.latest.base.host.memory_total_bytes for _, node, _, _ in nodes]
        self._totals[places] = [total or nan for total in totals]

    def _shown(self, places: Positions, now: float) -> tuple[Numbers, Numbers]:
        """Return the figures of GPUs and nodes as they are shown; NaN is not measured."""
        gpus = self._columns.gpus[_SHOWN_COLUMNS, places[:, None]].transpose(0, 2, 1)
        hosts = self._columns.hosts[places]
        nodes = np.empty((len(places), 3))
        nodes[:, 0] = np.floor(np.minimum(self._columns.times[places, 0], now))
        nodes[:, 1], nodes[:, 2] = hosts[:, 0], 100 * hosts[:, 1] / self._totals[places]
        nodes[:, 1:] = _rounded(nodes[:, 1:])
        memory = np.floor(gpus[..., _SHOWN_MEMORY] / MIB)
        gpus = _rounded(gpus)
        gpus[..., _SHOWN_MEMORY] = memory
        return gpus, nodes

    def _resize(self, size: int) -> None:
        self._numbers, self._gpus = enlarged(self._numbers, size), enlarged(self._gpus, size)
        self._marks, self._nodes = enlarged(self._marks, size), enlarged(self._nodes, size)
        self._totals = enlarged(self._totals, size)


def _rows(
    numbers: NDArray[np.int64],
    gpus: Numbers,
    gpus_changed: Flags,
    nodes: Numbers,
    nodes_changed: Flags,
) -> list[NodeFiguresDiff]:
    parts, figures = _marked(gpus, gpus_changed), _marked(nodes, nodes_changed)
    for node, gpu in np.argwhere(~gpus_changed.any(axis=2)).tolist():
        parts[node][gpu] = UNCHANGED
    return [
        NodeFiguresDiff(number, at, cpu, memory, tuple(rows))
        for number, at, (_, cpu, memory), rows in zip(
            numbers.tolist(), nodes[:, 0].astype(np.int64).tolist(), figures, parts, strict=True
        )
    ]


def _figures(numbers: NDArray[np.int64], nodes: Numbers, gpus: Numbers) -> list[NodeFigures]:
    return [
        NodeFigures(number, at, cpu, memory, tuple([DeviceFigures(*row) for row in rows]))
        for number, (at, cpu, memory), rows in zip(
            numbers.tolist(),
            _as_integers(nodes).tolist(),
            _as_integers(gpus).tolist(),
            strict=True,
        )
    ]


def _rounded(values: Numbers) -> Numbers:
    return np.rint(np.where(np.abs(values) < MAX_VALUE, values, nan))


def _differ(new: Numbers, old: Numbers) -> Flags:
    differ: Flags = (new != old) & ((new == new) | (old == old))
    return differ


def _as_integers(values: Numbers) -> NDArray[np.object_]:
    is_known = values == values
    integers = np.where(is_known, values, 0.0).astype(np.int64).astype(np.object_)
    integers[~is_known] = None
    return integers


def _marked(values: Numbers, changed: Flags) -> list[Any]:
    """Return the values as integers, with a mark in the place of those that have not changed."""
    marked = _as_integers(values)
    marked[~changed] = UNCHANGED
    found: list[Any] = marked.tolist()
    return found
