"""A router of cluster-smi as both of its formats name it: whom to ask, and how often."""

from fleet_smi.config.inherited.taking import Taking

NODES_PORT, CLIENTS_PORT = "9080", "9081"
_LOOPBACK = "127.0.0.1"


def take_router(
    into: Taking, *, address: str | None, nodes: str | None, clients: str | None, tick: str | None
) -> None:
    """The hub asks the router, which goes on; what would replace it is told."""
    host = address or _LOOPBACK
    nodes, clients = nodes or NODES_PORT, clients or CLIENTS_PORT
    into.take_all("the router", "hub.cluster_smi_routers", [f"{host}:{clients}"])
    if tick is not None:
        into.take("the tick", "hub.cluster_smi_interval", tick)
    into.leave(
        "the ports that nodes and clients use",
        f'the router keeps them; to replace it, set hub.cluster_smi_nodes = ":{nodes}" and '
        f'hub.cluster_smi_clients = ":{clients}" instead',
    )
