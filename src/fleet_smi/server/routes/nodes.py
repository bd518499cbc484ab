"""`/api/v1/nodes`: every node and the hub's problems; one node: read, rename, label, remove."""

import asyncio
from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.hub_problems import NodesView, Problems
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.view_options import ViewOptions
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.fleet_pages import MAX_CACHED_NODES, streamed_response
from fleet_smi.server.history_requests import MomentText, fleet_at
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.response_cache import compress_body, encoded_json_response
from fleet_smi.server.single_flight import iterate_cooperatively
from fleet_smi.server.site_nodes import require_own_node
from fleet_smi.wire.json import to_json

_Key = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,128}\Z")]
_Value = Annotated[str, Meta(max_length=256)]


class NodeQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`at` is a moment like `yesterday 03:12`, `-2h` or seconds since 1970; the default is now."""

    at: MomentText | UnsetType = UNSET


class NodeChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A name and labels that override the node's own; an empty text removes the override."""

    name: Annotated[str, Meta(max_length=128)] | None = None
    labels: Annotated[dict[_Key, _Value], Meta(max_length=64)] | None = None


async def list_nodes(context: RequestContext) -> Response:
    """Respond with every node, what the hub cannot do now, and whom it refuses."""
    hub_state = {
        "problems": context.services.problems.current(),
        "refused": context.hub.refusals.recent(),
    }
    if context.hub.shown.node_count > MAX_CACHED_NODES:
        return streamed_response(context, ViewOptions(), hub_state)

    async def encode() -> tuple[FleetView, list[Raw]]:
        view = await context.fleet_view()
        # Node by node: thousands at once would block the event loop, in a thread as well.
        steps = iterate_cooperatively(view.nodes, context.services.backpressure)
        return view, [Raw(to_json(node)) async for node in steps]

    # Shared by all who may see the same. The rest is small, and changes without the fleet.
    key = context.request.url.path, context.command_visibility
    view, nodes = await context.services.cache.get_or_compute(key, encode)
    document = {
        "taken_at": view.taken_at,
        "summary": view.summary,
        "nodes": nodes,
        **hub_state,
    }
    headers = {"Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
    body = await compress_body(to_json(document))
    return await encoded_json_response(context, body, headers)


async def list_problems(context: RequestContext) -> Response:
    """Respond with what the hub cannot do now, and whom it refuses."""
    problems, refused = context.services.problems.current(), context.hub.refusals.recent()
    return json_response(Problems(problems=problems, refused=refused))


async def get_node(context: RequestContext) -> Response:
    """Respond with one node in full, now or at a past moment."""
    view = await _view(context, context.path_params["node_id"], context.query.at)
    if view is None:
        raise _unknown(context)
    return json_response(view)


async def update_node(context: RequestContext) -> Response:
    """Change the name or labels of a node."""
    change: NodeChange = context.body
    name = None if change.name is None else _sanitize(change.name)
    labels = {_sanitize(key): _sanitize(value) for key, value in (change.labels or {}).items()}
    node_id = context.path_params["node_id"]
    require_own_node(context, node_id)
    taken_by = [each for each in context.hub.fleet.nodes_named(name or "") if each != node_id]
    if taken_by:
        message = f"the node {taken_by[0]} is named {name}: choose another name"
        raise ApiError(HttpError(409, "name_taken", message))
    if not await context.hub.label(node_id, name, labels):
        raise _unknown(context)
    return Response(status_code=204)


async def remove_node(context: RequestContext) -> Response:
    """Remove a node, its data and its credential."""
    node_id = context.path_params["node_id"]
    require_own_node(context, node_id)
    if await context.node_view(node_id) is None:
        raise _unknown(context)
    # The credential first: a report that arrives in between would bring the node back.
    await asyncio.to_thread(context.services.credentials.revoke_token, node_id)
    await context.hub.remove(node_id)
    return Response(status_code=204)


async def _view(context: RequestContext, node_id: str, at: str | UnsetType) -> NodeView | None:
    if at is UNSET:
        return await context.node_view(node_id)
    nodes = (await fleet_at(context, at)).nodes
    return next((node for node in nodes if node.node_id == node_id), None)


def _sanitize(text: str) -> str:
    return sanitize_text(text, len(text))


def _unknown(context: RequestContext) -> ApiError:
    return ApiError(
        HttpError(404, "unknown_node", f"no node has the id {context.path_params['node_id']}")
    )


# A node that never reported is known by its target, which may be a URL or a file path.
_PATH = "/api/v1/nodes/{node_id:path}"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/nodes",
        summary="Every node, problems of the hub, and the senders that it refuses",
        required_action="view",
        handler=list_nodes,
        response=NodesView,
        extra_statuses=(503,),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/problems",
        summary="Problems of the hub, and the senders that it refuses",
        required_action="view",
        handler=list_problems,
        response=Problems,
    ),
    Endpoint(
        method="GET",
        path=_PATH,
        summary="One node with all its data",
        required_action="view",
        handler=get_node,
        query=NodeQuery,
        response=NodeView,
        extra_statuses=(404,),
    ),
    Endpoint(
        method="PATCH",
        path=_PATH,
        summary="Change the name or labels of a node",
        required_action="administrate",
        handler=update_node,
        body=NodeChange,
        status=204,
        extra_statuses=(404, 409),
    ),
    Endpoint(
        method="DELETE",
        path=_PATH,
        summary="Remove a node and its credential; silent nodes are never removed by themselves",
        required_action="administrate",
        handler=remove_node,
        status=204,
        extra_statuses=(404,),
    ),
)
