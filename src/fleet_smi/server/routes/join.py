"""`POST /api/v1/join`: a new node gets its own credential for a join token."""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.errors import Refused
from fleet_smi.server.auth import bearer
from fleet_smi.server.endpoint import ApiError, Asked, Endpoint, json_response
from fleet_smi.server.refusal import Refusal
from fleet_smi.wire.bounds import IDENTITY


class JoinRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who wants to join."""

    node_id: Annotated[str, Meta(pattern=IDENTITY)]
    name: Annotated[str, Meta(min_length=1, max_length=128)]


class Joined(Struct, frozen=True, kw_only=True):
    """The node's own token, shown this once and good for reports of this node alone."""

    token: str


async def join(asked: Asked) -> Response:
    """Let a node in; who fails to is counted, as for any wrong token."""
    wanted: JoinRequest = asked.body
    headers, access = asked.request.scope["headers"], asked.services.access
    try:
        issued = await asyncio.to_thread(
            asked.services.credentials.join, bearer(headers) or "", wanted.node_id, wanted.name
        )
    except Refused as error:
        why = Refusal(403, "refused", error.words)
        raise ApiError(access.failed(headers, asked.peer, why)) from None
    return json_response(Joined(token=issued.secret))


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/api/v1/join",
        summary="Trade a join token for a credential bound to one node",
        may=None,
        handle=join,
        body=JoinRequest,
        answer=Joined,
        also=(403, 429, 503),
    ),
)
