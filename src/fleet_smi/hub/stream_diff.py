"""What listeners have been told of the fleet, and what of it is news; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.model.fleet import State
from fleet_smi.model.stream_payload import NodeFigures, NodePayload
from fleet_smi.model.stream_payload_builder import node_figures, node_payload
from fleet_smi.model.views import build_summary
from fleet_smi.wire.event import NodeFiguresDiff, StreamUpdate, diff_figures


class StreamDiff:
    """The fleet in brief, as it was last told."""

    def __init__(self, fleet: FleetState) -> None:
        self._fleet = fleet
        self._numbers: dict[str, int] = {}
        self._last_number = 0
        self._nodes: dict[int, NodePayload] = {}
        self._figures: dict[int, NodeFigures] = {}
        # Counted as nodes change: a look at every GPU would cost more than all that is told.
        self._states = Counter[State]()
        self._reporting = 0
        self._summary = build_summary(self._states, 0, 0)

    @property
    def numbers(self) -> Mapping[str, int]:
        """The number of each node in the stream, by node id."""
        return self._numbers

    def full_state(self) -> StreamUpdate:
        """Everything, for one who knows nothing."""
        nodes, figures = tuple(self._nodes.values()), tuple(self._figures.values())
        return StreamUpdate(summary=self._summary, nodes=nodes, figures=figures)

    def diff(self, node_ids: Iterable[str], now: float) -> StreamUpdate | None:
        """Look at these nodes anew; `None` when there is nothing to tell of them."""
        nodes: list[NodePayload] = []
        figures: list[NodeFigures | NodeFiguresDiff] = []
        removed: list[int] = []
        for node_id in node_ids:
            parts = self._fleet.node_parts(node_id, now)
            if parts is None:
                removed += self._forget(node_id)
                continue
            number = self._number(node_id)
            brief, row = node_payload(number, parts, now), node_figures(number, parts, now)
            if brief != self._nodes.get(number):
                self._drop(number)
                self._add(brief)
                nodes.append(brief)
                figures.append(row)
            elif row != self._figures[number]:
                figures.append(diff_figures(self._figures[number], row))
            self._figures[number] = row
        if nodes or removed:
            self._summary = build_summary(self._states, len(self._nodes), self._reporting)
        elif not figures:
            return None
        return StreamUpdate(summary=self._summary, nodes=nodes, figures=figures, removed=removed)

    def _number(self, node_id: str) -> int:
        """What this node goes by; one that was removed and comes back is another."""
        if node_id not in self._numbers:
            self._last_number += 1
            self._numbers[node_id] = self._last_number
        return self._numbers[node_id]

    def _forget(self, node_id: str) -> list[int]:
        number = self._numbers.pop(node_id, None)
        if number is None:
            return []
        self._drop(number)
        del self._figures[number]
        return [number]

    def _add(self, brief: NodePayload) -> None:
        self._nodes[brief.number] = brief
        self._states.update([gpu.verdict.state for gpu in brief.gpus])
        self._reporting += not brief.silent

    def _drop(self, number: int) -> None:
        brief = self._nodes.pop(number, None)
        if brief is not None:
            self._states.subtract([gpu.verdict.state for gpu in brief.gpus])
            self._reporting -= not brief.silent
