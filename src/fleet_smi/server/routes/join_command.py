"""`POST /api/v1/join-command`: the command line to paste on a new node."""

import asyncio
import re
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.hub.tokens import JOIN_MAX_USES
from fleet_smi.model.units import parse_duration
from fleet_smi.server.endpoint import Endpoint, RequestContext, json_response
from fleet_smi.server.join_line import describe_limits, join_command


class JoinLineRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long, and for how many nodes, the join token in the line is valid."""

    expires: Annotated[str, Meta(max_length=16)] = "24h"
    uses: Annotated[int, Meta(ge=1, le=100_000)] | None = JOIN_MAX_USES


class JoinLine(Struct, frozen=True, kw_only=True):
    """The command line, shown this once, the id to revoke its token by, and its limits."""

    id: str
    line: str
    limits: str
    """For people: "valid for 24 hours and 100 machines"."""


async def create_join_command(context: RequestContext) -> Response:
    """Create a join token and the line with it, for the URL that the client used."""
    request: JoinLineRequest = context.body
    services = context.services
    lifetime_seconds, max_uses = parse_duration(request.expires), request.uses or JOIN_MAX_USES
    issued = await asyncio.to_thread(
        services.credentials.issue_token,
        "join",
        "join-command",
        lifetime_seconds=lifetime_seconds,
        max_uses=max_uses,
    )
    line = join_command(_hub_url(context), issued.secret, services.fingerprint)
    limits = describe_limits(lifetime_seconds, max_uses)
    return json_response(JoinLine(id=issued.id, line=line, limits=limits))


def _hub_url(context: RequestContext) -> str:
    """The URL that the sender reached the hub by."""
    # A browser's Origin has the scheme of a TLS proxy, of which the hub itself knows nothing.
    origin = context.header("origin")
    if not origin.startswith(("http://", "https://")):
        origin = f"{'https' if context.services.tls else 'http'}://{context.header('host')}"
    # Where it names no port, agents would take the hub's own.
    scheme, _, host = origin.partition("://")
    if not re.search(r":\d+$", host):
        origin += ":443" if scheme == "https" else ":80"
    return origin + context.services.base_path


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
