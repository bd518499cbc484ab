"""`POST /api/v1/join-command`: the command line to paste on a new node."""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.hub.tokens import JOIN_MAX_USES
from fleet_smi.model.units import parse_duration
from fleet_smi.server.endpoint import Endpoint, RequestContext, json_response
from fleet_smi.server.install_script import script_checksum
from fleet_smi.server.join_line import describe_limits, install_command, join_command, with_port


class JoinLineRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long, and for how many nodes, the join token in the line is valid."""

    expires: Annotated[str, Meta(max_length=16)] = "24h"
    uses: Annotated[int, Meta(ge=1, le=100_000)] | None = JOIN_MAX_USES


class JoinLine(Struct, frozen=True, kw_only=True):
    """The command lines, shown this once, the id to revoke their token by, and its limits."""

    id: str
    line: str
    """For a node that has fleet-smi: it starts the agent."""
    install_line: str | None = None
    """For a node that has none: it installs it from the hub, joins, and starts it as a service."""
    limits: str
    """For people: "valid for 24 hours and 100 machines"."""


async def create_join_command(context: RequestContext) -> Response:
    """Create a join token and the line with it, for the hub's public URL."""
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
    # Through a proxy, the certificate that nodes see is the one of the proxy.
    is_proxied = services.access.is_trusted_proxy(context.peer)
    fingerprint = None if is_proxied else services.fingerprint
    url, limits = _hub_url(context), describe_limits(lifetime_seconds, max_uses)
    sha256 = await asyncio.to_thread(script_checksum, services.wheelhouse)
    install = sha256 and install_command(url, issued.secret, sha256, fingerprint)
    line = join_command(url, issued.secret, fingerprint)
    return json_response(JoinLine(id=issued.id, line=line, install_line=install, limits=limits))


def _hub_url(context: RequestContext) -> str:
    """The hub's public URL, else the one that the sender reached it by."""
    services = context.services
    if services.public_url is not None:
        return with_port(services.public_url)
    # A browser's Origin has the scheme of a TLS proxy, of which the hub itself knows nothing.
    origin = context.header("origin")
    if not origin.startswith(("http://", "https://")):
        headers = context.request.scope["headers"]
        origin = services.access.forwarded_origin(headers, context.peer) or (
            f"{'https' if services.tls else 'http'}://{context.header('host')}"
        )
    return with_port(origin) + services.base_path


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
