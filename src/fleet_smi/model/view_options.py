"""Options of a view: which GPUs to show, and in which order. Filters and sorts, no judgement."""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from fleet_smi.errors import UsageError
from fleet_smi.model.fleet import STATES, FleetView, JudgedGpu, NodeView, State
from fleet_smi.model.snapshot import Process

if TYPE_CHECKING:
    from fleet_smi.model.filter import Filter

_BY_ATTENTION: tuple[State, ...] = ("broken", "ghost", "held", "unknown", "free", "leased", "busy")


def _first_user(gpu: JudgedGpu) -> str:
    # "~" sorts after all letters: unknown users come last, and GPUs without a process after them.
    return min((process.user or "~" for process in _processes(gpu)), default="~~")


def _descending(field: str) -> Callable[[JudgedGpu], Any]:
    """Sort by a figure, the largest first; what is not measured comes last."""

    def key(gpu: JudgedGpu) -> tuple[bool, float]:
        value = getattr(gpu, field)
        return value is None, -(value or 0)

    return key


SORT_KEYS: dict[str, Callable[[JudgedGpu], Any]] = {
    "index": lambda gpu: gpu.index,
    "attention": lambda gpu: _BY_ATTENTION.index(gpu.verdict.state),
    "state": lambda gpu: STATES.index(gpu.verdict.state),
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

    def apply_to_nodes(self, nodes: Iterable[NodeView]) -> Iterator[NodeView]:
        """Yield the selected nodes, one after the other."""
        # The default options select everything: no node needs to be rebuilt.
        if self == _EVERYTHING:
            yield from nodes
            return
        selected = (self._node(node) for node in nodes if self._matches_name(node))
        yield from (node for node in selected if node.gpus or not self._selects_gpus())

    def _matches_name(self, node: NodeView) -> bool:
        return self.node is None or self.node.search(node.name) is not None

    def _selects_gpus(self) -> bool:
        filtered = self.filter is not None and bool(self.filter.terms)
        return filtered or self.user is not None or self.states is not None

    def _node(self, node: NodeView) -> NodeView:
        gpus = [self._only_user(gpu) for gpu in node.gpus if self._matches_gpu(node, gpu)]
        # Stable: equal GPUs stay in index order.
        return replace(node, gpus=tuple(sorted(gpus, key=SORT_KEYS[self.sort])))

    def _matches_gpu(self, node: NodeView, gpu: JudgedGpu) -> bool:
        if self.filter is not None and not self.filter.matches(node, gpu):
            return False
        if self.states is not None and not self.states & _states(gpu):
            return False
        return self.user is None or any(process.user == self.user for process in _processes(gpu))

    def _only_user(self, gpu: JudgedGpu) -> JudgedGpu:
        if self.user is None:
            return gpu
        return replace(
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


def _states(gpu: JudgedGpu) -> set[State]:
    return {gpu.verdict.state, *(instance.verdict.state for instance in gpu.instances)}


def _processes(gpu: JudgedGpu) -> Iterable[Process]:
    yield from gpu.processes or ()
    for instance in gpu.instances:
        yield from instance.processes or ()


def _of_user(processes: tuple[Process, ...] | None, user: str) -> tuple[Process, ...] | None:
    if processes is None:
        return None
    return tuple(process for process in processes if process.user == user)
