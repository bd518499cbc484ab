"""The change by which an administrator stops a node from coming by a transport."""

_REMEDIES = {
    "files": "delete the file of {node} from the folder in hub.files, and end its agent",
    "self": "set hub.include_self to false",
    "cluster-smi": "end its cluster-smi-node, or remove its router from hub.cluster_smi_routers",
}


def detach_remedy(source: str, node: str) -> str:
    """Return how to stop a source from reporting a node."""
    # The setting of any other source lists what it polls, and has its name.
    return _REMEDIES.get(source, "remove {node} from hub.{source}").format(node=node, source=source)
