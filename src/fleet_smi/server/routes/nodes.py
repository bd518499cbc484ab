"""`/api/v1/nodes`: one node in full; an administrator names, labels and removes it."""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.model.fleet import NodeView
from fleet_smi.model.text import clean
from fleet_smi.server.endpoint import ApiError, Asked, Endpoint, json_response
from fleet_smi.server.refusal import Refusal

_Key = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,128}\Z")]
_Value = Annotated[str, Meta(max_length=256)]


class NodeChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an administrator calls a node; an empty name or label gives the node's own back."""

    name: Annotated[str, Meta(max_length=128)] | None = None
    labels: Annotated[dict[_Key, _Value], Meta(max_length=64)] | None = None


async def node(asked: Asked) -> Response:
    """One node with all that is known of it."""
    view = asked.node(asked.path["node_id"])
    if view is None:
        raise _unknown(asked)
    return json_response(view)


async def change(asked: Asked) -> Response:
    """Give a node another name or labels."""
    wanted: NodeChange = asked.body
    name = None if wanted.name is None else _shown(wanted.name)
    labels = {_shown(key): _shown(value) for key, value in (wanted.labels or {}).items()}
    if not await asked.hub.label(asked.path["node_id"], name, labels):
        raise _unknown(asked)
    asked.services.shared.forget()
    return Response(status_code=204)


async def remove(asked: Asked) -> Response:
    """Forget a node, its data and its credential."""
    node_id = asked.path["node_id"]
    if asked.node(node_id) is None:
        raise _unknown(asked)
    # Its credential first: a report that comes in between would bring it back.
    await asyncio.to_thread(asked.services.credentials.revoke, node_id)
    await asked.hub.remove(node_id)
    asked.services.shared.forget()
    return Response(status_code=204)


def _shown(text: str) -> str:
    return clean(text, len(text))


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
