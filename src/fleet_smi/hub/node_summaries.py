"""Rows of the overview, one per node, made again only where more than figures has changed.

A row has the states and users of a node's GPUs but not the texts of their verdicts. To make all
verdicts of a large fleet for each query would take longer than a second.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.fleet.live_node import LiveNode
from fleet_smi.model.fleet import State, Summary
from fleet_smi.model.node_summary import NodeSummary, count_users, summarize_node
from fleet_smi.model.people import gpu_users
from fleet_smi.model.snapshot_figures import GPU_FIELDS
from fleet_smi.model.views import NodeParts, build_summary

if TYPE_CHECKING:
    from fleet_smi.hub.sites.shown_fleet import ShownFleet

_BUSY, _USED = GPU_FIELDS.index("busy_percent"), GPU_FIELDS.index("memory_used_bytes")


class CountedNode(NamedTuple):
    """The row of a node, and how many free MIG instances it has."""

    row: NodeSummary
    free_instances: int


class _KnownNode:
    """The row of a node without instances, and what it was made from.

    `_marks` are in the order of the sample, `_holdings` and `_order` in that of the row.
    """

    __slots__ = ("_facts", "_holdings", "_marks", "_order", "_row", "_totals")

    def __init__(self, row: NodeSummary, parts: NodeParts, live: LiveNode) -> None:
        self._row = row
        self._facts, self._marks = live.facts, live.marks
        self._order = live.order
        self._holdings = [gpu_users(gpu, verdict, {}) for gpu, verdict in parts.gpus]
        self._totals = [gpu.memory_total_bytes for gpu in live.node.latest.base.gpus]

    def is_same_node(self, live: LiveNode) -> bool:
        """Whether only GPUs of the node may differ from what the row was made from."""
        return self._facts == live.facts and len(self._marks) == len(live.marks)

    def updated_row(self, live: LiveNode) -> NodeSummary:
        """Return the row as it is now."""
        if live.marks != self._marks or None in live.marks:
            self._update_gpus(live)
        busy = [percent for percent in live.column(_BUSY) if percent is not None]
        pairs = [
            (used, total)
            for used, total in zip(live.column(_USED), self._totals, strict=True)
            if used is not None and total
        ]
        memory = sum([total for _, total in pairs])
        return replace(
            self._row,
            reported_at=live.reported_at,
            busy_percent=sum(busy) / len(busy) if busy else None,
            memory_percent=100 * sum([used for used, _ in pairs]) / memory if memory else None,
        )

    def _update_gpus(self, live: LiveNode) -> None:
        states, before = list(self._row.states), self._marks
        for place, position in enumerate(self._order):
            mark = live.marks[position]
            if mark is None or mark != before[position]:
                gpu, verdict = live.judged_gpu(position)
                states[place] = verdict.state
                self._holdings[place] = gpu_users(gpu, verdict, {})
        self._marks = live.marks
        users = count_users(chain.from_iterable(self._holdings))
        self._row = replace(self._row, states=tuple(states), users=users)


class NodeSummaries:
    """The rows of all nodes of one fleet, of which those that still hold are kept."""

    def __init__(self, fleet: "FleetState | ShownFleet") -> None:
        self._fleet = fleet
        self._known: dict[str, _KnownNode] = {}

    def rows(self, now: float) -> Iterator[CountedNode]:
        """Yield the row of every node, sorted by name."""
        node_ids = [node_id for _, node_id in self._fleet.places(now)]
        for node_id in self._known.keys() - set(node_ids):
            del self._known[node_id]
        for node_id in node_ids:
            counted = self._row(node_id, now)
            if counted is not None:  # it may have been removed meanwhile
                yield counted

    def _row(self, node_id: str, now: float) -> CountedNode | None:
        live, known = self._fleet.live_node(node_id, now), self._known.get(node_id)
        if live is not None and known is not None and known.is_same_node(live):
            return CountedNode(known.updated_row(live), 0)
        parts = self._fleet.node_parts(node_id, now)
        if parts is None:
            return None
        row = summarize_node(parts, now)
        self._known.pop(node_id, None)
        # A warning about its clock says by how much it is wrong, which differs any time.
        if live is not None and live.marks and not live.is_clock_wrong:
            self._known[node_id] = _KnownNode(row, parts, live)
        return CountedNode(row, _free_instances(parts))


def summarize_rows(nodes: Iterable[CountedNode]) -> Summary:
    """Count the GPUs of these nodes by state."""
    states, total, reporting, free_instances = Counter[State](), 0, 0, 0
    for row, instances in nodes:
        states.update(row.states)
        total += 1
        reporting += not row.silent
        free_instances += instances
    return build_summary(states, total, reporting, free_instances)


def _free_instances(parts: NodeParts) -> int:
    verdicts = parts.verdicts
    return sum(
        [verdicts[part.uuid].state == "free" for gpu, _ in parts.gpus for part in gpu.instances]
    )
