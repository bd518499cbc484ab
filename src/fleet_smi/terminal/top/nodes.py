"""The nodes of the live screen, kept up to date by whole views or by the events of a stream."""

from collections.abc import Iterator
from functools import cached_property

from fleet_smi.model.fleet import FleetView, NodeView, State, Summary
from fleet_smi.model.payload_views import build_payload_node
from fleet_smi.model.safe_text import natural_sort_key
from fleet_smi.model.stream_payload import NodeFigures, NodePayload
from fleet_smi.model.views import summarize_nodes
from fleet_smi.wire.event import Event, EventKind
from fleet_smi.wire.event_reader import apply_figures

EMPTY_SUMMARY: Summary = summarize_nodes(())


class NodeItem:
    """One node, from a view or from a stream; its view is built only when it is needed.

    `facts` is another object whenever more than a figure has changed.
    """

    def __init__(
        self, facts: NodeView | NodePayload, figures: NodeFigures | None, taken_at: float
    ) -> None:
        self.facts = facts
        self.figures = figures
        self.taken_at = taken_at
        self._view: NodeView | None = facts if isinstance(facts, NodeView) else None

    @property
    def node_id(self) -> str:
        return self.facts.node_id

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def silent(self) -> bool:
        return self.facts.silent

    @cached_property
    def states(self) -> tuple[State, ...]:
        """The states of its GPUs, by index."""
        return tuple([gpu.verdict.state for gpu in self.facts.gpus])

    @cached_property
    def sort_name(self) -> tuple[tuple[int, str], ...]:
        return natural_sort_key(self.facts.name)

    @property
    def view(self) -> NodeView:
        """The view of the node; from a stream it has users instead of processes."""
        if self._view is None:
            assert isinstance(self.facts, NodePayload)  # noqa: S101  # a view was set above
            self._view = build_payload_node(self.facts, self.figures, self.taken_at)
        return self._view

    @property
    def cpu_percent(self) -> float | None:
        return self.figures.cpu_percent if self.figures else self.view.host.cpu_percent

    @property
    def memory_percent(self) -> float | None:
        """The share of the host's memory that is in use."""
        if self.figures is not None:
            return self.figures.memory_percent
        host = self.view.host
        if host.memory_used_bytes is None or not host.memory_total_bytes:
            return None
        return 100 * host.memory_used_bytes / host.memory_total_bytes

    @property
    def reported_at(self) -> float | None:
        """When its last sample was taken, by the clock of the fleet."""
        if self.figures is not None:
            return self.figures.reported_at
        age = self.view.age_seconds
        return None if age is None else self.taken_at - age

    @property
    def power_watts(self) -> float:
        """The power of its GPUs, as far as it is measured; none while it is silent."""
        if self.silent:
            return 0.0
        rows = self.figures.parts if self.figures is not None else self.view.gpus
        return sum([row.power_watts or 0.0 for row in rows])

    def with_figures(self, figures: NodeFigures, taken_at: float) -> "NodeItem":
        """Return the node with other figures; what follows from the facts is not built again."""
        item = NodeItem(self.facts, figures, taken_at)
        for name in ("states", "sort_name"):
            if name in self.__dict__:
                item.__dict__[name] = self.__dict__[name]
        return item


class FleetNodes:
    """All nodes by their ids, with the summary and the time of the last update."""

    def __init__(self) -> None:
        self.taken_at = 0.0
        self.summary = EMPTY_SUMMARY
        self.version = 0
        """Counts the updates."""
        self.roster_version = 0
        """Counts the updates in which more than figures changed."""
        self.is_loaded = False
        self._by_id: dict[str, NodeItem] = {}
        self._ids: dict[int, str] = {}  # of the nodes in the stream, by their numbers

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[NodeItem]:
        return iter(self._by_id.values())

    def get(self, node_id: str | None) -> NodeItem | None:
        """Return a node, if it is there."""
        return None if node_id is None else self._by_id.get(node_id)

    @property
    def power_watts(self) -> float:
        """The power of all GPUs, as far as it is measured."""
        return sum([item.power_watts for item in self._by_id.values()])

    def apply_view(self, view: FleetView) -> None:
        """Replace everything by a view."""
        self._by_id = {node.node_id: NodeItem(node, None, view.taken_at) for node in view.nodes}
        self._ids = {}
        self.roster_version += 1
        self._finish(view.taken_at, view.summary)

    def apply_event(self, kind: EventKind, event: Event) -> None:
        """Apply an event of the stream: the whole fleet, or what has changed."""
        if kind == "fleet":
            self._by_id, self._ids = {}, {}
        for number in event.removed:
            self._by_id.pop(self._ids.pop(number, ""), None)
        figures = {row.number: row for row in event.figures}
        for facts in event.nodes:
            diff = figures.pop(facts.number, None)
            old = self._by_id.pop(self._ids.get(facts.number, ""), None)
            known = None if old is None else old.figures
            own = known if diff is None else apply_figures(known, diff)
            self._ids[facts.number] = facts.node_id
            self._by_id[facts.node_id] = NodeItem(facts, own, event.taken_at)
        for number, diff in figures.items():
            item = self._by_id.get(self._ids.get(number, ""))
            if item is not None:
                moved = apply_figures(item.figures, diff)
                self._by_id[item.node_id] = item.with_figures(moved, event.taken_at)
        if kind == "fleet" or event.nodes or event.removed:
            self.roster_version += 1
        self._finish(event.taken_at, event.summary)

    def _finish(self, taken_at: float, summary: Summary) -> None:
        self.taken_at, self.summary = taken_at, summary
        self.version += 1
        self.is_loaded = True
