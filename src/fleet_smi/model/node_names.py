"""Names of nodes: their order, and unique ones where two nodes have the same name."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from fleet_smi.model.fleet import NodeView
from fleet_smi.model.safe_text import natural_sort_key

NodePlace = tuple[tuple[object, ...], str]
"""Where a node is in a list that is sorted by name: its natural sort key, and its id."""
_ID_PREFIX_LENGTH = 8


def node_place(name: str, node_id: str) -> NodePlace:
    """Return the place of a node in a list that is sorted by name."""
    return natural_sort_key(name), node_id


def unique_node_names(nodes: Sequence[NodeView]) -> dict[str, str]:
    """Return a unique name per node id: its name, or "gpu01~10.0.0.2:1080" where that is taken."""
    return make_names_unique({node.node_id: node.name for node in nodes})


def make_names_unique(names: Mapping[str, str]) -> dict[str, str]:
    """Return a unique name per node id, from names of which several may be equal."""
    unique = _with_suffixes(names, names, _suffix)
    # A short suffix may be that of two ids, and a node may choose a name that looks like one.
    return _with_suffixes(unique, names, str)


def _with_suffixes(
    unique: Mapping[str, str], names: Mapping[str, str], suffix: Callable[[str], str]
) -> dict[str, str]:
    counts = Counter(unique.values())
    return {
        node_id: f"{names[node_id]}~{suffix(node_id)}" if counts[name] > 1 else name
        for node_id, name in unique.items()
    }


def _suffix(node_id: str) -> str:
    """Return the address in its id, where it has one; else the start of its id."""
    _, _, address = node_id.rpartition("@")
    return address if address != node_id else node_id[:_ID_PREFIX_LENGTH]
