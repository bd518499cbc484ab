"""Unique display names of nodes, where two of them have the same name."""

from collections import Counter
from collections.abc import Sequence

from fleet_smi.model.fleet import NodeView

_ID_PREFIX_LENGTH = 8


def unique_node_names(nodes: Sequence[NodeView]) -> dict[str, str]:
    """Return a unique name per node id: its name, or "gpu01~10.0.0.2:1080" where that is taken."""
    counts = Counter([node.name for node in nodes])
    return {
        node.node_id: f"{node.name}~{_suffix(node.node_id)}" if counts[node.name] > 1 else node.name
        for node in nodes
    }


def _suffix(node_id: str) -> str:
    """Return the address in its id, where it has one; else the start of its id."""
    _, _, address = node_id.rpartition("@")
    return address if address != node_id else node_id[:_ID_PREFIX_LENGTH]
