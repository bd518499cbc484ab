"""The nodes that `--on` means: any, one by its name, or those with a label. Pure."""

from collections.abc import Sequence

from fleet_smi.errors import UsageError
from fleet_smi.model.node_names import make_names_unique
from fleet_smi.model.queue.entries import ANYWHERE, LABEL_PREFIX, NODE_PREFIX
from fleet_smi.model.queue.places import is_place
from fleet_smi.model.views import NodeParts


def nodes_on(nodes: Sequence[NodeParts], on: str, not_on: str = "") -> list[NodeParts]:
    """Return the nodes that are meant, but those of the ids `not_on`; raise `UsageError`.

    A node is named as `fleet-smi nodes` shows it, or by its id.
    """
    if on == ANYWHERE:
        found = list(nodes)
    elif on.startswith(LABEL_PREFIX):
        found = [parts for parts in nodes if is_place(parts.node, on)]
    else:
        on = on.removeprefix(NODE_PREFIX)
        names = make_names_unique({parts.node.node_id: parts.node.name for parts in nodes})
        found = [
            parts
            for parts in nodes
            if on in (parts.node.node_id, parts.node.name, names[parts.node.node_id])
        ]
    if not found and on != ANYWHERE:
        raise UsageError(unknown_place(on))
    excluded = set(not_on.split(","))
    return [parts for parts in found if parts.node.node_id not in excluded]


def unknown_place(on: str) -> str:
    """Return what to say where no node is meant."""
    if on.startswith(LABEL_PREFIX):
        return f"no node has the label {on.removeprefix(LABEL_PREFIX)}: write label:KEY=VALUE"
    return f"no node is named {on.removeprefix(NODE_PREFIX)}: see `fleet-smi nodes`"
