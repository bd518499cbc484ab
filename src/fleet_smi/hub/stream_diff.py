"""Diff of the fleet for the stream: what was last sent, and what has changed since. No I/O."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.fleet.live_node import LiveNode, node_facts
from fleet_smi.hub.placed_node import PlacedNode
from fleet_smi.hub.stream_columns import ColumnNode, StreamColumns
from fleet_smi.hub.stream_facts import SentFacts
from fleet_smi.model.fleet import State, Summary
from fleet_smi.model.stream_payload import NodeFigures, NodePayload
from fleet_smi.model.stream_payload_builder import column_figures, node_figures, node_payload
from fleet_smi.model.views import build_summary, count_free_instances
from fleet_smi.wire.event import NodeFiguresDiff, StreamUpdate, diff_figures

if TYPE_CHECKING:
    from fleet_smi.hub.sites.shown_fleet import ShownFleet


class StreamDiff:
    """The payload of every node as it was last sent."""

    def __init__(self, fleet: "FleetState | ShownFleet") -> None:
        self._fleet = fleet
        self._numbers: dict[str, int] = {}
        self._last_number = 0
        self._nodes: dict[int, NodePayload] = {}
        self._figures: dict[int, NodeFigures] = {}
        self._facts: dict[int, SentFacts] = {}
        self._columns = StreamColumns()
        # Updated as nodes change: to count every GPU each time would cost more than the diff.
        self._states = Counter[State]()
        self._reporting = self._free_instances = 0
        self._summary = build_summary(self._states, 0, 0)
        self.failed: set[str] = set()
        """Ids of the nodes that the last diff could not compare; they stay as they were sent."""

    @property
    def numbers(self) -> Mapping[str, int]:
        """The number of each node in the stream, by node id."""
        return self._numbers

    def full_state(self) -> StreamUpdate:
        """All nodes as they were last sent."""
        return self.capture()()

    def capture(self) -> Callable[[], StreamUpdate]:
        """Copy the full state; what is returned makes it, in any thread."""
        summary, nodes = self._summary, tuple(self._nodes.values())
        figures, make_others = tuple(self._figures.values()), self._columns.capture()
        return lambda: StreamUpdate(
            summary=summary, nodes=nodes, figures=(*figures, *make_others())
        )

    def diff(self, node_ids: Iterable[str], now: float) -> StreamUpdate | None:
        """Compare these nodes with what was last sent; `None` when nothing has changed.

        Nodes that the fleet no longer has are `removed`.
        """
        nodes: list[NodePayload] = []
        figures: list[NodeFigures | NodeFiguresDiff] = []
        removed: list[int] = []
        self.failed.clear()
        rest = [*node_ids]
        with self._fleet.faults.guard("stream"):
            rest = self._diff_columns(rest, now, figures)
        for node_id in rest:
            try:
                found = self._current(node_id, now)
                if found is None:
                    removed += self._remove(node_id)
                    continue
                payload, row = found
                number = row.number
                # Two parts: the figures change with every report, the rest hardly ever.
                known = self._nodes.get(number)
                is_changed = payload is not known and payload != known
                before = self._columns.figures(number) or self._figures.get(number)
                if before is not None and not is_changed and row != before:
                    figures.append(diff_figures(before, row))
            except Exception as error:  # noqa: BLE001  # the others are to be published
                self.failed.add(node_id)
                self._forget_facts(node_id)
                self._fleet.faults.record("stream", node_id, error)
                continue
            if is_changed:
                self._drop_payload(number)
                self._store_payload(payload)
                nodes.append(payload)
                figures.append(row)  # whole: a diff needs as many rows as before
            self._columns.forget(number)
            self._figures[number] = row
        # The summary has only states and nodes: figures alone do not change it.
        if nodes or removed:
            self._summary = self._summarize()
        elif not figures:
            return None
        return StreamUpdate(summary=self._summary, nodes=nodes, figures=figures, removed=removed)

    def _diff_columns(
        self, node_ids: Sequence[str], now: float, figures: list[NodeFigures | NodeFiguresDiff]
    ) -> list[str]:
        """Compare what is in columns, and return the ids of the nodes that are to be looked at."""
        live, known, nodes = self._fleet.select_live(node_ids, now), self._facts, list[ColumnNode]()
        numbers, payloads = self._numbers, self._nodes
        rest = dict[int, str]()
        others: list[str] = []
        for node_id, node in zip(node_ids, live, strict=True):
            number = numbers.get(node_id, 0)
            facts = None if node is None else known.get(number)
            columns = None if node is None else node.standings.current_columns
            if (
                node is not None
                and facts is not None
                and facts.order is None
                and isinstance(columns, PlacedNode)
                and len(facts.marks) == columns.gpu_count
                and facts.has_same_facts(node_facts(node))
                and number in payloads
            ):
                rest[number] = node_id
                nodes.append(ColumnNode(number, node, columns, facts.marks))
            else:
                others.append(node_id)
        found = self._columns.diff(nodes, now)
        for number in found.entered:
            self._figures.pop(number, None)
        figures += found.rows
        return [*others, *[rest[number] for number in found.rest]]

    def drop(self, number: int, error: Exception) -> None:
        """Remove the payload of a node that cannot be encoded, until it changes again."""
        self._drop_payload(number)
        self._figures.pop(number, None)
        self._columns.forget(number)
        self._summary = self._summarize()
        node_id = next((key for key, value in self._numbers.items() if value == number), None)
        if node_id is not None:
            self.failed.add(node_id)
            self._fleet.faults.record("stream", node_id, error)

    def _current(self, node_id: str, now: float) -> tuple[NodePayload, NodeFigures] | None:
        """The payload of a node as it is now; `None` if the fleet does not have it."""
        live = self._fleet.live_node(node_id, now)
        if live is not None and node_id in self._numbers:
            found = self._update(self._numbers[node_id], live)
            if found is not None:
                return found
        parts = self._fleet.node_parts(node_id, now)
        if parts is None:
            return None
        number = self._number(node_id)
        payload, row = node_payload(number, parts, now), node_figures(number, parts, now)
        if live is None:
            self._facts.pop(number, None)
        else:
            self._facts[number] = SentFacts(live, payload)
        return payload, row

    def _update(self, number: int, live: LiveNode) -> tuple[NodePayload, NodeFigures] | None:
        """The payload of a node, made from the one before; `None` if too much has changed."""
        facts, payload = self._facts.get(number), self._nodes.get(number)
        if facts is None or payload is None or not facts.is_same_node(live):
            return None
        if changed := facts.changed_gpus(live, payload):
            payload = replace(payload, gpus=changed)
        total = live.memory_total_bytes
        row = column_figures(number, live.figures, live.reported_at, total, facts.order)
        return payload, row

    def _number(self, node_id: str) -> int:
        """The number that identifies a node in the stream; one that was removed gets a new one."""
        if node_id not in self._numbers:
            self._last_number += 1
            self._numbers[node_id] = self._last_number
        return self._numbers[node_id]

    def _remove(self, node_id: str) -> list[int]:
        self._forget_facts(node_id)
        number = self._numbers.pop(node_id, None)
        if number is None:
            return []
        self._drop_payload(number)
        self._figures.pop(number, None)
        self._columns.forget(number)
        return [number]

    def _forget_facts(self, node_id: str) -> None:
        self._facts.pop(self._numbers.get(node_id, 0), None)

    def _store_payload(self, payload: NodePayload) -> None:
        self._nodes[payload.number] = payload
        self._states.update([gpu.verdict.state for gpu in payload.gpus])
        self._reporting += not payload.silent
        self._free_instances += count_free_instances(payload)

    def _drop_payload(self, number: int) -> None:
        payload = self._nodes.pop(number, None)
        if payload is not None:
            self._states.subtract([gpu.verdict.state for gpu in payload.gpus])
            self._reporting -= not payload.silent
            self._free_instances -= count_free_instances(payload)

    def _summarize(self) -> Summary:
        nodes = len(self._nodes)
        return build_summary(self._states, nodes, self._reporting, self._free_instances)
