"""`/api/v1/nodes`: one node in full; an administrator names, labels and removes it."""

import asyncio

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.model.fleet import NodeView
from fleet_smi.server.endpoint import ApiError, Asked, Endpoint, json_response
from fleet_smi.server.refusal import Refusal


class NodeChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an administrator calls a node; an empty name or label gives the node's own back."""

    name: str | None = None
    labels: dict[str, str] | None = None


async def node(asked: Asked) -> Response:
    """One node with all that is known of it."""
    view = asked.node(asked.path["node_id"])
    if view is None:
        raise _unknown(asked)
    return json_response(view)


async def change(asked: Asked) -> Response:
    """Give a node another name or labels."""
    wanted: NodeChange = asked.body
    if not asked.hub.fleet.label(asked.path["node_id"], wanted.name, wanted.labels):
        raise _unknown(asked)
    return Response(status_code=204)


async def remove(asked: Asked) -> Response:
    """Forget a node, its data and its credential."""
    node_id = asked.path["node_id"]
    if not asked.hub.remove(node_id):
        raise _unknown(asked)
    await asyncio.to_thread(asked.services.credentials.revoke, node_id)
    return Response(status_code=204)


def _unknown(asked: Asked) -> ApiError:
    return ApiError(Refusal(404, "unknown_node", f"no node has the id {asked.path['node_id']}"))


# What a source calls a node that was never heard of may be an address or a path.
_PATH = "/api/v1/nodes/{node_id:path}"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_PATH,
        summary="One node with all that is known of it",
        may="view",
        handle=node,
        answer=NodeView,
        also=(404,),
    ),
    Endpoint(
        method="PATCH",
        path=_PATH,
        summary="Give a node another name or labels",
        may="administrate",
        handle=change,
        body=NodeChange,
        status=204,
        also=(404,),
    ),
    Endpoint(
        method="DELETE",
        path=_PATH,
        summary="Forget a node and its credential; nothing else makes a node leave",
        may="administrate",
        handle=remove,
        status=204,
        also=(404,),
    ),
)
