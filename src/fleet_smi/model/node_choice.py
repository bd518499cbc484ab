"""The nodes that `--on` means: any, one by its name, or those with a label. Pure."""

from collections.abc import Sequence

from fleet_smi.errors import UsageError
from fleet_smi.model.node_names import make_names_unique
from fleet_smi.model.views import NodeParts

ANY = "any"
LABEL = "label:"


def nodes_on(nodes: Sequence[NodeParts], on: str, not_on: str = "") -> list[NodeParts]:
    """Return the nodes that are meant, but those of the ids `not_on`; raise `UsageError`.

    A node is named as `fleet-smi nodes` shows it, or by its id.
    """
    if on == ANY:
        found = list(nodes)
    elif on.startswith(LABEL):
        key, _, value = on.removeprefix(LABEL).partition("=")
        found = [parts for parts in nodes if value and parts.node.labels.get(key) == value]
        if not found:
            raise UsageError(
                f"no node has the label {on.removeprefix(LABEL)}: write label:KEY=VALUE"
            )
    else:
        names = make_names_unique({parts.node.node_id: parts.node.name for parts in nodes})
        found = [
            parts
            for parts in nodes
            if on in (parts.node.node_id, parts.node.name, names[parts.node.node_id])
        ]
        if not found:
            raise UsageError(f"no node is named {on}: see `fleet-smi nodes`")
    excluded = set(not_on.split(","))
    return [parts for parts in found if parts.node.node_id not in excluded]
