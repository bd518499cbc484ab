"""`/api/v1/closings`: nodes, GPUs and labels that an admin has closed to new work."""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.errors import StateError
from fleet_smi.hub.closings import MAX_NOTE_LENGTH
from fleet_smi.model.closing import Closing, ClosingList
from fleet_smi.model.fleet import devices_of
from fleet_smi.server.auth import acting_name
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.site_nodes import require_own_node


class ClosingRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node by its id, one of its GPUs or instances by `uuid`, or a label like "rack=3".

    `until` is in seconds since 1970; without it, it lasts until it is opened.
    """

    node_id: Annotated[str, Meta(max_length=128)] | None = None
    uuid: Annotated[str, Meta(max_length=128)] | None = None
    label: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,128}=[^\x00-\x1f]{1,256}\Z")] | None = (
        None
    )
    until: float | None = None
    note: Annotated[str, Meta(max_length=MAX_NOTE_LENGTH)] = ""


async def list_closings(context: RequestContext) -> Response:
    """Respond with what is closed now."""
    return json_response(ClosingList(closings=context.services.closings.current))


async def close(context: RequestContext) -> Response:
    """Close a node, a GPU or a label to new work; in place of an earlier closing of the same."""
    request: ClosingRequest = context.body
    now, store = context.hub.clock(), context.services.closings
    _check_target(context, request)
    if request.until is not None and not now < request.until:
        raise ApiError(HttpError(400, "bad_time", "the end of the closing is in the past"))
    if store.is_full:
        raise StateError("too many closings: open some of them first")
    identity = context.identity
    closing = Closing(
        id="",
        node_id=request.node_id,
        uuid=request.uuid,
        label=request.label,
        until=request.until,
        note=request.note,
        by="" if identity is None else acting_name(identity),
        created_at=now,
    )
    saved = await asyncio.to_thread(store.close, closing)
    _show(context)
    return json_response(saved)


async def open_again(context: RequestContext) -> Response:
    """Remove a closing by its id."""
    closing_id = context.path_params["closing_id"]
    if not await asyncio.to_thread(context.services.closings.open, closing_id):
        raise ApiError(HttpError(404, "unknown_closing", f"there is no closing {closing_id}"))
    _show(context)
    return Response(status_code=204)


def _show(context: RequestContext) -> None:
    """Show the change now, in every view: the response promises it."""
    context.hub.fleet.views.set_closings(context.services.closings.current)
    context.hub.publish()


def _check_target(context: RequestContext, request: ClosingRequest) -> None:
    if (request.node_id is None) == (request.label is None):
        raise ApiError(HttpError(400, "bad_target", "give either a node_id or a label"))
    if request.node_id is None:
        if request.uuid is not None:
            raise ApiError(HttpError(400, "bad_target", "a GPU needs its node_id"))
        return
    require_own_node(context, request.node_id)
    node = context.hub.shown.node(request.node_id, context.hub.clock())
    if node is None:
        raise ApiError(HttpError(404, "unknown_node", f"there is no node {request.node_id}"))
    uuids = [part.uuid for gpu in node.gpus for part in devices_of(gpu)]
    if request.uuid is not None and request.uuid not in uuids:
        message = f"{node.name} has no GPU {request.uuid}"
        raise ApiError(HttpError(404, "unknown_gpu", message))


_PATH = "/api/v1/closings"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_PATH,
        summary="What is closed to new work",
        required_action="view",
        handler=list_closings,
        response=ClosingList,
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        summary="Close a node, a GPU or a label to new work",
        required_action="administrate",
        handler=close,
        body=ClosingRequest,
        response=Closing,
        extra_statuses=(404, 409, 503),
    ),
    Endpoint(
        method="DELETE",
        path=f"{_PATH}/{{closing_id}}",
        summary="Open it again",
        required_action="administrate",
        handler=open_again,
        status=204,
        extra_statuses=(404, 503),
    ),
)
