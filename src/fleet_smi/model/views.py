"""What is believed of a node or a fleet, put together to be shown."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict, replace

from fleet_smi.model.fleet import (
    STATES,
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
    """A node at one moment, not yet put together: for those who look at many, often.

    `node` is the view of it without its GPUs. `gpus` are in the order of their indices, and
    `verdicts` has those on the instances too, by UUID.
    """

    node: NodeView
    gpus: tuple[tuple[Gpu, Verdict], ...] = ()
    verdicts: dict[str, Verdict] = {}


def build_node_view(parts: NodeParts) -> NodeView:
    """The view of a node, with its GPUs."""
    gpus = [_judged(gpu, verdict, parts.verdicts) for gpu, verdict in parts.gpus]
    return replace(parts.node, gpus=tuple(gpus))


def split_node_view(view: NodeView) -> NodeParts:
    """Split a view into its parts; the inverse of `build_node_view`."""
    verdicts = {part.uuid: part.verdict for gpu in view.gpus for part in gpu.instances}
    gpus = tuple([(gpu, gpu.verdict) for gpu in view.gpus])
    return NodeParts(node=view, gpus=gpus, verdicts=verdicts)


def summarize_nodes(nodes: "Iterable[NodeView | NodePayload]") -> Summary:
    """The strip of truth over these nodes, whole or in brief."""
    nodes = tuple(nodes)
    states = Counter([gpu.verdict.state for node in nodes for gpu in node.gpus])
    return build_summary(states, len(nodes), sum([not node.silent for node in nodes]))


def build_summary(states: Counter[State], nodes: int, nodes_reporting: int) -> Summary:
    """The strip of truth over what was counted."""
    counts = {state: states[state] for state in STATES}
    return Summary(gpus=states.total(), nodes=nodes, nodes_reporting=nodes_reporting, **counts)


def _judged(gpu: Gpu, verdict: Verdict, verdicts: Mapping[str, Verdict]) -> JudgedGpu:
    fields = asdict(gpu)
    if gpu.instances:
        fields["instances"] = tuple(
            JudgedInstance(**asdict(part), verdict=verdicts[part.uuid]) for part in gpu.instances
        )
    return JudgedGpu(**fields, verdict=verdict)
