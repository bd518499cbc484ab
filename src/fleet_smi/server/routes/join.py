"""`POST /api/v1/join`: exchange a join token for the credential of one node."""

import asyncio
import re
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.errors import AlreadyJoined, Refused
from fleet_smi.fleet.machines import JOIN_AS_NEW
from fleet_smi.hub.refusals import Refusal
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.server.auth import bearer_token
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError
from fleet_smi.wire.credential_proof import PROPOSAL_HEADER, PROPOSAL_PATTERN
from fleet_smi.wire.limits import ID_PATTERN


class JoinRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The node that joins; its boot id tells it from another machine with the same id."""

    node_id: Annotated[str, Meta(pattern=ID_PATTERN)]
    name: Annotated[str, Meta(min_length=1, max_length=128)]
    boot_id: Annotated[str, Meta(max_length=64)] | None = None


class Joined(Struct, frozen=True, kw_only=True):
    """The node's own token, valid for reports of this node only and shown this once."""

    token: str


async def join(context: RequestContext) -> Response:
    """Let a node join; a wrong join token counts against the rate limit of its address."""
    request: JoinRequest = context.body
    headers, access = context.request.scope["headers"], context.services.access
    address = access.client_address(headers, context.peer)
    node_id = context.hub.fleet.identities.joining_id(
        request.node_id, request.boot_id, request.name, address, context.hub.clock()
    )
    try:
        issued = await asyncio.to_thread(
            context.services.credentials.redeem_join_token,
            bearer_token(headers) or "",
            node_id,
            request.name,
            _proposal(context),
        )
    except Refused as error:
        message = _refusal_message(context, error, node_id)
        refusal = HttpError(403, "refused", message)
        reason, _, remedy = message.partition("; ")
        name = sanitize_text(request.name, 128)
        context.hub.refuse(Refusal(address, f"cannot join: {reason}", remedy, name=name))
        raise ApiError(access.record_failure(headers, context.peer, refusal)) from None
    context.hub.refusals.forget(node_id, address)
    return json_response(Joined(token=issued.secret))


def _refusal_message(context: RequestContext, error: Refused, node_id: str) -> str:
    """The message of a refusal; it never advises a clone to revoke a healthy node."""
    node = context.hub.fleet.node(node_id, context.hub.clock())
    if not isinstance(error, AlreadyJoined) or node is None or node.silent:
        return error.message
    return (
        f"this node id already has a credential; {node.name} reports with it now: if this machine "
        f"is a clone of it, run on this machine {JOIN_AS_NEW}"
    )


def _proposal(context: RequestContext) -> str | None:
    """The credential that the node proposes, `None` for an agent that leaves it to the hub.

    In a header, like the join token, so that agents and hubs of other versions ignore it.
    """
    proposal = context.header(PROPOSAL_HEADER)
    if not proposal:
        return None
    if not re.fullmatch(PROPOSAL_PATTERN, proposal):
        message = f"{PROPOSAL_HEADER} is not a credential"
        raise ApiError(HttpError(400, "bad_header", message))
    return proposal


ENDPOINTS = (
    Endpoint(
        method="POST",
        path="/api/v1/join",
        summary="Trade a join token for a credential bound to one node",
        required_action=None,
        handler=join,
        body=JoinRequest,
        response=Joined,
        extra_statuses=(403, 429, 503),
    ),
)
