"""Arrangement of the nodes: which match the filter, and in which order they are shown."""

from collections.abc import Callable, Iterable
from typing import Any

from fleet_smi.errors import UsageError
from fleet_smi.model.filter import Filter, parse_filter
from fleet_smi.model.filter_keys import FIGURE_GETTERS
from fleet_smi.model.fleet import State
from fleet_smi.terminal.top.nodes import FleetNodes, NodeItem

SORTS = ("name", "attention", "free", "load", "memory", "power", "temperature")
# What needs somebody's attention, as the page ranks it.
_SEVERITY: dict[State, int] = {"broken": 4, "unknown": 3, "ghost": 2, "held": 1}
# A filter by figures is matched again for every sample: so many nodes in each update.
_MATCHED_PER_UPDATE = 150
# A new filter takes effect when all nodes are matched; so many at a time, so that keys are heard.
_MATCHED_PER_SLICE = 100
_RESORT_UPDATES = 5


def _mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else -1.0


def _rows(item: NodeItem) -> Iterable[Any]:
    return item.figures.parts if item.figures is not None else item.view.gpus


def _memory(item: NodeItem) -> float:
    if item.figures is not None:
        return sum([row.memory_used_mebibytes or 0 for row in item.figures.parts])
    return sum([gpu.memory_used_bytes or 0 for gpu in item.view.gpus])


# The higher the earlier; by name where it is equal.
_RANKS: dict[str, Callable[[NodeItem], float]] = {
    "attention": lambda item: max([_SEVERITY.get(state, 0) for state in item.states], default=0),
    "free": lambda item: 0 if item.silent else item.states.count("free"),
    "load": lambda item: -1.0 if item.silent else _mean(row.busy_percent for row in _rows(item)),
    "memory": lambda item: -1.0 if item.silent else _memory(item),
    "power": lambda item: -1.0 if item.silent else item.power_watts,
    "temperature": lambda item: max(
        [row.temperature_celsius or 0.0 for row in _rows(item)], default=-1.0
    ),
}
_ROSTER_SORTS = ("name", "attention", "free")


class Arrangement:
    """The ids of the nodes to show, in order, and which of their GPUs match the filter.

    The order follows the figures only every few updates: rows that jump cannot be read.
    """

    def __init__(self) -> None:
        self.node_ids: list[str] = []
        self.positions: dict[str, int] = {}
        self.error: str | None = None
        """Why the filter cannot be parsed; the one before stays in force."""
        self.matching_gpus = 0
        self._filter = Filter()
        self._next: Filter | None = None
        self._next_matches: dict[str, tuple[object, frozenset[str]]] = {}
        self._has_figures = False
        self._sort = "name"
        self._sorted_for: tuple[object, ...] = ()
        # By node id: the facts that were matched, and the UUIDs that did.
        self._matches: dict[str, tuple[object, frozenset[str]]] = {}
        self._updates = 0

    @property
    def is_filtered(self) -> bool:
        """Whether a filter is in force, or about to be."""
        return bool((self._next or self._filter).terms)

    @property
    def is_pending(self) -> bool:
        """Whether another filter takes effect after some more updates."""
        return self._next is not None

    def set_filter(self, text: str) -> None:
        """Set the filter; one that cannot be parsed is an `error`, and changes nothing."""
        try:
            parsed = parse_filter(text)
        except UsageError as error:
            self.error = str(error)
            return
        self.error = None
        if parsed == (self._next or self._filter):
            return
        self._next, self._next_matches = parsed, {}
        if not parsed.terms or parsed == self._filter:
            self._take_effect(parsed, {} if not parsed.terms else self._matches)

    def set_sort(self, sort: str) -> None:
        """Set the order, one of `SORTS`."""
        self._sort = sort
        self._sorted_for = ()

    def matches(self, item: NodeItem) -> frozenset[str] | None:
        """Return the UUIDs of the GPUs that match; `None` without a filter."""
        if not self._filter.terms:
            return None
        found = self._matches.get(item.node_id)
        return frozenset() if found is None else found[1]

    def update(self, fleet: FleetNodes) -> None:
        """Follow the fleet."""
        self._updates += 1
        if self._next is not None:
            self._match_slice(fleet, self._next)
        if self._filter.terms:
            self._match(fleet)
        turn = 0 if self._sort in _ROSTER_SORTS else self._updates // _RESORT_UPDATES
        key = (fleet.roster_version, turn, self._matching_key())
        if key == self._sorted_for:
            return
        self._sorted_for = key
        shown = [item for item in fleet if not self._filter.terms or self.matches(item)]
        self.node_ids = [item.node_id for item in self._in_order(shown)]
        self.positions = {node_id: at for at, node_id in enumerate(self.node_ids)}

    def _match_slice(self, fleet: FleetNodes, wanted: Filter) -> None:
        """Match some more nodes by the next filter; after the last ones it takes effect."""
        found, budget = self._next_matches, _MATCHED_PER_SLICE
        for item in fleet:
            if item.node_id not in found:
                if budget == 0:
                    return
                budget -= 1
                found[item.node_id] = item.facts, _find(item, wanted)
        self._take_effect(wanted, found)

    def _take_effect(
        self, wanted: Filter, matches: dict[str, tuple[object, frozenset[str]]]
    ) -> None:
        self._filter, self._matches = wanted, matches
        self._next, self._next_matches = None, {}
        self._has_figures = any(term.key in FIGURE_GETTERS for term in wanted.terms)
        self._sorted_for = ()

    def _matching_key(self) -> object:
        return tuple([node_id for node_id, (_, found) in self._matches.items() if found])

    def _in_order(self, items: list[NodeItem]) -> list[NodeItem]:
        by_name = sorted(items, key=lambda item: (item.sort_name, item.node_id))
        rank = _RANKS.get(self._sort)
        # Stable: equal nodes stay in the order of their names.
        return by_name if rank is None else sorted(by_name, key=rank, reverse=True)

    def _match(self, fleet: FleetNodes) -> None:
        budget, known = _MATCHED_PER_UPDATE, self._matches
        # Those that were matched longest ago first: a dict keeps the order of its insertions.
        stale = [*known] if self._has_figures else []
        due = {*stale[:budget]}
        for item in fleet:
            before = known.get(item.node_id)
            if before is not None and before[0] is item.facts and item.node_id not in due:
                continue
            known.pop(item.node_id, None)
            known[item.node_id] = (item.facts, _find(item, self._filter))
        for node_id in [node_id for node_id in known if fleet.get(node_id) is None]:
            del known[node_id]
        self.matching_gpus = sum([len(found) for _, found in known.values()])


def _find(item: NodeItem, wanted: Filter) -> frozenset[str]:
    """Return the UUIDs of the GPUs of a node that match."""
    node = item.view
    return frozenset([gpu.uuid for gpu in node.gpus if wanted.matches(node, gpu)])
