"""`/get-status`: for pages and scripts of gpu-cluster-monitor, only where it has a password."""

import asyncio

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.compat.node_info.codec import MainStatus, encode_main_status
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext
from fleet_smi.server.http_error import HttpError

_NOT_SERVED = HttpError(
    404, "not_served", "this is served where hub.get_status_password is set, and here it is not"
)


class Passwd(Struct, frozen=True):
    """What its main node sends to its nodes."""

    passwd: str


async def status_for_viewer(context: RequestContext) -> Response:
    """Every node, for who may look anyway."""
    _password(context)
    return await _told(context)


async def status_for_password(context: RequestContext) -> Response:
    """Every node, for who knows the password."""
    headers, shown = context.request.scope["headers"], context.body.passwd
    refusal = context.services.access.check_shared_password(
        headers, context.peer, shown, _password(context)
    )
    if refusal is not None:
        raise ApiError(refusal)
    return await _told(context)


def _password(asked: RequestContext) -> str:
    password = asked.services.get_status_password
    if password is None:
        raise ApiError(_NOT_SERVED)
    return password


async def _told(asked: RequestContext) -> Response:
    # Thousands of nodes take a while: not on the event loop.
    body = await asyncio.to_thread(encode_main_status, await asked.fleet_view())
    return Response(body, media_type="application/json")


_SUMMARY = "Every node, as the main node of gpu-cluster-monitor tells them"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/get-status",
        summary=_SUMMARY,
        required_action="view",
        handler=status_for_viewer,
        response=MainStatus,
        extra_statuses=(404,),
    ),
    Endpoint(
        method="POST",
        path="/get-status",
        summary=f"{_SUMMARY}, for its password",
        required_action=None,
        handler=status_for_password,
        body=Passwd,
        response=MainStatus,
        extra_statuses=(403, 404, 429),
    ),
)
