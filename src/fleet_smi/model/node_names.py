"""How nodes are called where two of them have one name."""

from collections import Counter
from collections.abc import Sequence

from fleet_smi.model.fleet import NodeView

_ENOUGH_OF_AN_ID = 8


def unique_node_names(nodes: Sequence[NodeView]) -> dict[str, str]:
    """What each node is called, by its id: its name, or "gpu01~10.0.0.2:1080" beside a namesake."""
    counts = Counter([node.name for node in nodes])
    return {
        node.node_id: f"{node.name}~{_mark(node.node_id)}" if counts[node.name] > 1 else node.name
        for node in nodes
    }


def _mark(node_id: str) -> str:
    """Where it was heard, for one that is known by that; else the start of its id."""
    _, _, address = node_id.rpartition("@")
    return address if address != node_id else node_id[:_ENOUGH_OF_AN_ID]
