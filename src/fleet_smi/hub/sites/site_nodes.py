"""Nodes of another hub, built from the payload of its stream and named after its site. No I/O."""

from msgspec.structs import replace

from fleet_smi.model.fleet import NodeView
from fleet_smi.model.payload_views import MAX_NAME_LENGTH, build_payload_node
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.stream_payload import NodeFigures, NodePayload


def site_node_id(site: str, node_id: str) -> str:
    """Return the id here of a node of a site: other hubs may have a node of the same id."""
    return f"{site}/{sanitize_text(node_id, MAX_NAME_LENGTH)}"


def build_site_node(
    site: str, payload: NodePayload, figures: NodeFigures | None, now: float
) -> NodeView:
    """Build the view of a node of a site, as the hub there sees it."""
    node = build_payload_node(payload, figures, now)
    return replace(
        node, node_id=site_node_id(site, payload.node_id), name=f"{site}/{node.name}", site=site
    )
