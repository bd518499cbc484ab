"""Options of a view: which GPUs to show, and in which order. Filters and sorts, no judgement."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import UsageError
from fleet_smi.model.fleet import STATES, FleetView, NodeView, State, Verdict
from fleet_smi.model.snapshot import Gpu, Process
from fleet_smi.model.views import NodeParts, build_node_view, split_node_view

if TYPE_CHECKING:
    from fleet_smi.model.filter import Filter
    from fleet_smi.model.node_summary import FleetOverview

_BY_ATTENTION: tuple[State, ...] = ("broken", "ghost", "held", "unknown", "free", "leased", "busy")


JudgedPair = tuple[Gpu, Verdict]
"""A GPU and the verdict on it, as the parts of a node have them."""


def _first_user(pair: JudgedPair) -> str:
    # "~" sorts after all letters: unknown users come last, and GPUs without a process after them.
    return min((process.user or "~" for process in _processes(pair[0])), default="~~")


def _descending(field: str) -> Callable[[JudgedPair], Any]:
    """Sort by a figure, the largest first; what is not measured comes last."""

    def key(pair: JudgedPair) -> tuple[bool, float]:
        value = getattr(pair[0], field)
        return value is None, -(value or 0)

    return key


SORT_KEYS: dict[str, Callable[[JudgedPair], Any]] = {
    "index": lambda pair: pair[0].index,
    "attention": lambda pair: _BY_ATTENTION.index(pair[1].state),
    "state": lambda pair: STATES.index(pair[1].state),
    "util": _descending("busy_percent"),
    "memory": _descending("memory_used_bytes"),
    "temperature": _descending("temperature_celsius"),
    "power": _descending("power_watts"),
    "user": _first_user,
}


class ViewOptions(Struct, frozen=True, kw_only=True):
    """What to show of a fleet, and in which order."""

    user: str | None = None
    node: re.Pattern[str] | None = None
    states: frozenset[State] | None = None
    filter: "Filter | None" = None
    sort: str = "index"

    def apply(self, view: FleetView) -> FleetView:
        """Return the selected part of the fleet, sorted within each node."""
        return replace(view, nodes=tuple(self.apply_to_nodes(view.nodes)))

    def apply_to_overview(self, overview: "FleetOverview") -> "FleetOverview":
        """Return the rows of the nodes whose name matches: GPUs cannot be selected in these."""
        nodes = [node for node in overview.nodes if self._matches_name(node.name)]
        return replace(overview, nodes=tuple(nodes))

    def apply_to_nodes(self, nodes: Iterable[NodeView]) -> Iterator[NodeView]:
        """Yield the selected nodes, one after the other."""
        for node in nodes:
            parts = split_node_view(node)
            selected = self.select(parts)
            if selected is parts:
                yield node  # the default options select everything: it need not be rebuilt
            elif selected is not None:
                yield build_node_view(selected)

    def select(self, parts: NodeParts) -> NodeParts | None:
        """Return the selected part of a node, sorted; `None` where none of it is selected."""
        if self == _EVERYTHING:
            return parts
        if not self._matches_name(parts.node.name):
            return None
        pairs = [self._only_user(pair) for pair in parts.gpus if self._matches(parts, *pair)]
        if not pairs and self._selects_gpus():
            return None
        # Stable: equal GPUs stay in index order.
        return replace(parts, gpus=tuple(sorted(pairs, key=SORT_KEYS[self.sort])))

    @property
    def selects_names(self) -> bool:
        """Whether only names decide what is shown, and not the GPUs of a node."""
        return replace(self, node=None) == _EVERYTHING

    def _matches_name(self, name: str) -> bool:
        return self.node is None or self.node.search(name) is not None

    def _selects_gpus(self) -> bool:
        filtered = self.filter is not None and bool(self.filter.terms)
        return filtered or self.user is not None or self.states is not None

    def _matches(self, parts: NodeParts, gpu: Gpu, verdict: Verdict) -> bool:
        verdicts = parts.verdicts
        if self.states is not None and verdict.state not in self.states:
            inside = [verdicts[instance.uuid].state for instance in gpu.instances]
            if not self.states.intersection(inside):
                return False
        if self.user is not None and all(one.user != self.user for one in _processes(gpu)):
            return False
        return self.filter is None or self.filter.matches_parts(parts.node, gpu, verdict, verdicts)

    def _only_user(self, pair: JudgedPair) -> JudgedPair:
        if self.user is None:
            return pair
        gpu, verdict = pair
        only_theirs = replace(
            gpu,
            processes=_of_user(gpu.processes, self.user),
            more_processes=0,  # nobody knows how many of them are this user's
            instances=tuple(
                replace(
                    instance, processes=_of_user(instance.processes, self.user), more_processes=0
                )
                for instance in gpu.instances
            ),
        )
        return only_theirs, verdict


_EVERYTHING = ViewOptions()


def parse_node_pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression to search node names with; raise `UsageError` if invalid."""
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(f"-n {text!r} is not a regular expression: {error}") from None


def parse_states(text: str) -> frozenset[State]:
    """Parse states separated by commas, in any case; raise `UsageError` if one is unknown."""
    names = [name.strip() for name in text.lower().split(",") if name.strip()]
    unknown = [name for name in names if name not in STATES]
    if unknown or not names:
        raise UsageError(f"--state {text!r}: the states are {', '.join(STATES)}")
    return frozenset(state for state in STATES if state in names)


def _processes(gpu: Gpu) -> Iterable[Process]:
    yield from gpu.processes or ()
    for instance in gpu.instances:
        yield from instance.processes or ()


def _of_user(processes: tuple[Process, ...] | None, user: str) -> tuple[Process, ...] | None:
    if processes is None:
        return None
    return tuple(process for process in processes if process.user == user)
