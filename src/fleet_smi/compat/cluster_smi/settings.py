"""Settings import of a cluster-smi router, shared by its two file formats."""

from fleet_smi.config.importer import SettingsImporter

DEFAULT_NODES_PORT, DEFAULT_CLIENTS_PORT = "9080", "9081"
_LOOPBACK = "127.0.0.1"


def import_router(
    importer: SettingsImporter,
    *,
    address: str | None,
    nodes_port: str | None,
    clients_port: str | None,
    interval: str | None,
) -> None:
    """Poll the router, which stays in use; note the settings that would replace it."""
    host = address or _LOOPBACK
    nodes_port, clients_port = (
        nodes_port or DEFAULT_NODES_PORT,
        clients_port or DEFAULT_CLIENTS_PORT,
    )
    importer.extend_list("the router", "hub.cluster_smi_routers", [f"{host}:{clients_port}"])
    if interval is not None:
        importer.set_value("the tick", "hub.cluster_smi_interval", interval)
    importer.skip(
        "the ports of nodes and clients",
        f'the router keeps them; to replace it, set hub.cluster_smi_nodes = ":{nodes_port}" and '
        f'hub.cluster_smi_clients = ":{clients_port}" instead',
    )
