"""`/get-status`: for pages and scripts of gpu-cluster-monitor, only where it has a password."""

import asyncio

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.server.endpoint import ApiError, Asked, Endpoint
from fleet_smi.server.refusal import Refusal
from fleet_smi.wire.dialects.node_info import MainStatus, encode_main_status

_NOT_SERVED = Refusal(
    404, "not_served", "this is served where hub.get_status_password is set, and here it is not"
)


class Passwd(Struct, frozen=True):
    """What its main node sends to its nodes."""

    passwd: str


async def for_a_viewer(asked: Asked) -> Response:
    """Every node, for who may look anyway."""
    _password(asked)
    return await _told(asked)


async def for_the_password(asked: Asked) -> Response:
    """Every node, for who knows the password."""
    headers, shown = asked.request.scope["headers"], asked.body.passwd
    refusal = asked.services.access.password_refusal(headers, asked.peer, shown, _password(asked))
    if refusal is not None:
        raise ApiError(refusal)
    return await _told(asked)


def _password(asked: Asked) -> str:
    password = asked.services.get_status_password
    if password is None:
        raise ApiError(_NOT_SERVED)
    return password


async def _told(asked: Asked) -> Response:
    # Thousands of nodes take a while: not on the event loop.
    body = await asyncio.to_thread(encode_main_status, await asked.fleet())
    return Response(body, media_type="application/json")


_SUMMARY = "Every node, as the main node of gpu-cluster-monitor tells them"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/get-status",
        summary=_SUMMARY,
        may="view",
        handle=for_a_viewer,
        answer=MainStatus,
        also=(404,),
    ),
    Endpoint(
        method="POST",
        path="/get-status",
        summary=f"{_SUMMARY}, for its password",
        may=None,
        handle=for_the_password,
        body=Passwd,
        answer=MainStatus,
        also=(403, 404, 429),
    ),
)
