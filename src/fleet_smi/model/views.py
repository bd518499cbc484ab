"""Building of node views and summaries from judged parts."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict, replace

from fleet_smi.model.fleet import (
    STATES,
    FleetView,
    JudgedGpu,
    JudgedInstance,
    NodeView,
    State,
    Summary,
    Verdict,
)
from fleet_smi.model.snapshot import Gpu

if TYPE_CHECKING:
    from fleet_smi.model.stream_payload import NodePayload


class NodeParts(Struct, frozen=True, kw_only=True, gc=False):
    """The parts of a node view, for callers that read many nodes often and need no full view.

    `node` is the view without its GPUs. `gpus` are sorted by index, and `verdicts` has those on
    the instances too, by UUID.
    """

    node: NodeView
    gpus: tuple[tuple[Gpu, Verdict], ...] = ()
    verdicts: dict[str, Verdict] = {}


class FleetParts(Struct, frozen=True, kw_only=True):
    """The fleet at one moment, every node in parts."""

    taken_at: float
    summary: Summary
    nodes: tuple[NodeParts, ...]


def summarize_parts(nodes: Iterable[NodeParts]) -> Summary:
    """Count the GPUs of these nodes by state."""
    nodes = tuple(nodes)
    states = Counter([verdict.state for parts in nodes for _, verdict in parts.gpus])
    reporting = sum([not parts.node.silent for parts in nodes])
    instances = [
        parts.verdicts[instance.uuid].state
        for parts in nodes
        for gpu, _ in parts.gpus
        for instance in gpu.instances
    ]
    return build_summary(states, len(nodes), reporting, instances.count("free"))


def split_fleet_view(view: FleetView) -> FleetParts:
    """Split every node of a view into its parts."""
    nodes = tuple(map(split_node_view, view.nodes))
    return FleetParts(taken_at=view.taken_at, summary=view.summary, nodes=nodes)


def build_node_view(parts: NodeParts) -> NodeView:
    """Build the view of a node, with its GPUs; one that is judged already stays as it is."""
    gpus = [
        gpu if isinstance(gpu, JudgedGpu) else _judged(gpu, verdict, parts.verdicts)
        for gpu, verdict in parts.gpus
    ]
    return replace(parts.node, gpus=tuple(gpus))


def split_node_view(view: NodeView) -> NodeParts:
    """Split a view into its parts; the inverse of `build_node_view`."""
    verdicts = {part.uuid: part.verdict for gpu in view.gpus for part in gpu.instances}
    gpus = tuple([(gpu, gpu.verdict) for gpu in view.gpus])
    return NodeParts(node=view, gpus=gpus, verdicts=verdicts)


def summarize_nodes(nodes: "Iterable[NodeView | NodePayload]") -> Summary:
    """Count the GPUs of these nodes by state, from views or stream payloads."""
    nodes = tuple(nodes)
    states = Counter([gpu.verdict.state for node in nodes for gpu in node.gpus])
    reporting = sum([not node.silent for node in nodes])
    return build_summary(states, len(nodes), reporting, sum(map(count_free_instances, nodes)))


def count_free_instances(node: "NodeView | NodePayload") -> int:
    """Count the free MIG instances of a node."""
    return sum([part.verdict.state == "free" for gpu in node.gpus for part in gpu.instances])


def build_summary(
    states: Counter[State], nodes: int, nodes_reporting: int, free_instances: int = 0
) -> Summary:
    """Build the summary from counts by state."""
    counts = {state: states.get(state, 0) for state in STATES}
    return Summary(
        gpus=states.total(),
        nodes=nodes,
        nodes_reporting=nodes_reporting,
        free_instances=free_instances,
        **counts,
    )


def _judged(gpu: Gpu, verdict: Verdict, verdicts: Mapping[str, Verdict]) -> JudgedGpu:
    # `asdict` of msgspec is shallow: processes and instances are shared, not copied.
    fields = asdict(gpu)
    if gpu.instances:
        fields["instances"] = tuple(
            JudgedInstance(**asdict(instance), verdict=verdicts[instance.uuid])
            for instance in gpu.instances
        )
    fields["verdict"] = verdict
    return JudgedGpu(**fields)
