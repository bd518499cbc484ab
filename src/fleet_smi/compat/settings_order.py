"""Order of nodes in the responses of older masters: that of their settings, not of names."""

from msgspec.structs import replace

from fleet_smi.hub.hub import Hub
from fleet_smi.model.fleet import FleetView


def in_settings_order(view: FleetView, hub: Hub) -> FleetView:
    """Return the view with the nodes that are polled first, in the order of the hub's settings.

    The hub's own machine is the first of all, as `self` in the settings of nvgpu, and nodes that
    report by themselves follow by name.
    """
    positions = {node_id: position for position, node_id in enumerate(hub.polled_nodes())}
    last = len(positions)
    nodes = sorted(
        view.nodes,  # sorted by name, and `sorted` keeps the order of equals
        key=lambda node: (node.via != "self", positions.get(node.node_id, last)),
    )
    return replace(view, nodes=tuple(nodes))
