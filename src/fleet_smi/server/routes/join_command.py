"""`POST /api/v1/join-command`: the line to paste on a new node."""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.model.units import parse_duration
from fleet_smi.server.endpoint import Endpoint, RequestContext, json_response
from fleet_smi.server.tls import join_command


class JoinLineRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how long, and for how many nodes, the line is good."""

    expires: Annotated[str, Meta(max_length=16)] = "7d"
    uses: Annotated[int, Meta(ge=1, le=100_000)] | None = None


class JoinLine(Struct, frozen=True, kw_only=True):
    """The line, shown this once, and the id by which its token is revoked."""

    id: str
    line: str


async def create_join_command(context: RequestContext) -> Response:
    """A line with a join token of its own; the hub is called what the asker calls it."""
    wanted: JoinLineRequest = context.body
    services = context.services
    issued = await asyncio.to_thread(
        services.credentials.issue_token,
        "join",
        "join-command",
        lifetime_seconds=parse_duration(wanted.expires),
        max_uses=wanted.uses,
    )
    url, pin = _address(context), services.fingerprint
    return json_response(JoinLine(id=issued.id, line=join_command(url, issued.secret, pin)))


def _address(asked: RequestContext) -> str:
    """Where the asker reached the hub: a browser says so, a proxy's TLS included."""
    origin = asked.header("origin")
    if origin.startswith(("http://", "https://")):
        return origin
    return f"{'https' if asked.services.tls else 'http'}://{asked.header('host')}"


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/api/v1/join-command",
        summary="The line to paste on a new node",
        required_action="administrate",
        handler=create_join_command,
        body=JoinLineRequest,
        response=JoinLine,
        extra_statuses=(503,),
    ),
)
