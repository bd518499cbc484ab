"""Figures of many nodes for the stream, rounded and compared with those sent last in arrays.

Only of nodes whose figures are in columns (`fleet/figure_columns.py`) and of which nothing but
figures has changed; `stream_diff.py` does the rest.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleet_smi.fleet.figure_columns import FigureColumns, NodeColumns, enlarged
from fleet_smi.fleet.live_node import LiveNode
from fleet_smi.fleet.packed_batch import Flags, Numbers, Positions
from fleet_smi.fleet.steady_columns import BUSY, MEMORY, POWER, TEMPERATURE
from fleet_smi.model.stream_payload import DeviceFigures, NodeFigures
from fleet_smi.model.stream_payload_builder import MAX_VALUE
from fleet_smi.model.units import MIB
from fleet_smi.wire.event import UNCHANGED, NodeFiguresDiff

_SHOWN = [BUSY, MEMORY, TEMPERATURE, POWER]  # in the order of `DeviceFigures`
_SHOWN_MEMORY = _SHOWN.index(MEMORY)


class ColumnNode(NamedTuple):
    """A node whose facts are as they were sent, by its number in the stream, with its marks."""

    number: int
    live: LiveNode
    columns: NodeColumns
    marks: Sequence[int | None]


class StreamColumns:
    """The figures of nodes as they were last sent."""

    def __init__(self) -> None:
        self._sent: dict[int, _SentFigures] = {}
        self._places: dict[int, tuple[_SentFigures, int]] = {}

    def diff(self, nodes: Sequence[ColumnNode]) -> dict[int, NodeFiguresDiff | None]:
        """Return what differs from what was sent, of the nodes of which only figures do.

        Of those that are not in it more may differ.
        """
        groups: dict[int, list[ColumnNode]] = {}
        for node in nodes:
            groups.setdefault(id(node.columns.columns), []).append(node)
        rows: dict[int, NodeFiguresDiff | None] = {}
        for key, group in groups.items():
            sent = self._sent.get(key)
            if sent is None:
                sent = self._sent[key] = _SentFigures(group[0].columns.columns)
            for node, row in sent.diff(group):
                number, place = node.number, (sent, node.columns.place)
                rows[number] = row
                if self._places.get(number, place) != place:
                    self.forget(number)
                self._places[number] = place
        return rows

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

    `_numbers` are those of the nodes in the stream, 0 where nothing was sent.
    """

    def __init__(self, columns: FigureColumns) -> None:
        self._columns = columns
        self._numbers = np.zeros(0, np.int64)
        self._gpus = np.empty((0, columns.gpu_count, len(_SHOWN)))
        self._marks = np.empty((0, columns.gpu_count))
        self._nodes = np.empty((0, 3))

    def forget(self, place: int, number: int) -> None:
        if self._numbers[place] == number:
            self._numbers[place] = 0

    def capture(self, places: Sequence[int]) -> Callable[[], list[NodeFigures]]:
        chosen = np.array(places)
        return partial(_figures, self._numbers[chosen], self._nodes[chosen], self._gpus[chosen])

    def diff(
        self, group: Sequence[ColumnNode]
    ) -> Iterator[tuple[ColumnNode, NodeFiguresDiff | None]]:
        places: Positions = np.array([node.columns.place for node in group])
        if (size := len(self._columns.gpus)) > len(self._numbers):
            self._resize(size)
        numbers = np.array([node.number for node in group])
        is_known = self._numbers[places] == numbers
        marks = [
            [nan if mark is None else float(mark) for mark in node.marks]
            for node, known in zip(group, is_known.tolist(), strict=True)
            if not known
        ]
        if marks:
            self._marks[places[~is_known]] = marks
        is_same = (self._marks[places] == self._columns.marks(places)).all(axis=1)
        gpus, nodes = self._shown(places, group)
        gpus_changed = _differ(gpus, self._gpus[places]) | ~is_known[:, None, None]
        nodes_changed = _differ(nodes, self._nodes[places]) | ~is_known[:, None]
        chosen = places[is_same]
        self._gpus[chosen], self._nodes[chosen] = gpus[is_same], nodes[is_same]
        self._numbers[chosen] = numbers[is_same]
        has_changed = nodes_changed.any(axis=1) | gpus_changed.any(axis=(1, 2))
        yield from _rows(
            [node for node, same in zip(group, is_same.tolist(), strict=True) if same],
            _marked(gpus[is_same], gpus_changed[is_same]),
            gpus_changed[is_same].any(axis=2).tolist(),
            _marked(nodes[is_same], nodes_changed[is_same]),
            has_changed[is_same].tolist(),
        )

    def _shown(self, places: Positions, group: Sequence[ColumnNode]) -> tuple[Numbers, Numbers]:
        """Return the figures of GPUs and nodes as they are shown; NaN is not measured."""
        gpus = self._columns.gpus[places][:, :, _SHOWN]
        gpus[..., _SHOWN_MEMORY] = np.floor(gpus[..., _SHOWN_MEMORY] / MIB)
        hosts = self._columns.hosts[places]
        totals = np.array([node.live.memory_total_bytes or nan for node in group])
        nodes = np.empty((len(group), 3))
        nodes[:, 0] = np.floor([node.live.reported_at for node in group])
        nodes[:, 1], nodes[:, 2] = hosts[:, 0], 100 * hosts[:, 1] / totals
        nodes[:, 1:] = _rounded(nodes[:, 1:])
        others = [at for at in range(len(_SHOWN)) if at != _SHOWN_MEMORY]
        gpus[..., others] = _rounded(gpus[..., others])
        return gpus, nodes

    def _resize(self, size: int) -> None:
        self._numbers, self._gpus = enlarged(self._numbers, size), enlarged(self._gpus, size)
        self._marks, self._nodes = enlarged(self._marks, size), enlarged(self._nodes, size)


def _rows(
    nodes: Sequence[ColumnNode],
    gpus: list[Any],
    gpus_changed: list[list[bool]],
    figures: list[Any],
    has_changed: list[bool],
) -> Iterator[tuple[ColumnNode, NodeFiguresDiff | None]]:
    for node, rows, changed, (_, cpu, memory), is_changed in zip(
        nodes, gpus, gpus_changed, figures, has_changed, strict=True
    ):
        if not is_changed:
            yield node, None
            continue
        parts = [row if differs else UNCHANGED for row, differs in zip(rows, changed, strict=True)]
        reported_at = int(node.live.reported_at)
        yield node, NodeFiguresDiff(node.number, reported_at, cpu, memory, tuple(parts))


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
