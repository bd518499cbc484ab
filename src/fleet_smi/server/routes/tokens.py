"""`/api/v1/tokens`: list, create and revoke access tokens (admin)."""

import asyncio
from typing import Annotated, Literal

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.hub.tokens import Token
from fleet_smi.model.units import parse_duration
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError


class TokenRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The role of a token and its lifetime ("7d"; without one it is valid until revoked).

    With a `person` it is a personal token: what is done with it, they have done.
    """

    role: Literal["viewer", "admin", "join"]
    note: Annotated[str, Meta(max_length=128)] = ""
    expires: Annotated[str, Meta(max_length=16)] | None = None
    uses: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    person: Annotated[str, Meta(max_length=128)] | None = None


class TokenMade(Struct, frozen=True, kw_only=True):
    """A new token, shown this once: the hub stores only its hash."""

    id: str
    token: str


class TokenList(Struct, frozen=True, kw_only=True):
    """The valid tokens, the oldest first."""

    tokens: tuple[Token, ...]


async def list_tokens(context: RequestContext) -> Response:
    """Every valid token with its role and the time of its last use, without its secret."""
    tokens = await asyncio.to_thread(context.services.credentials.tokens.list_all)
    now = context.hub.clock()
    return json_response(
        TokenList(tokens=tuple(token for token in tokens if not token.invalid_reason(now)))
    )


async def create_token(context: RequestContext) -> Response:
    """Create a token, valid immediately."""
    request: TokenRequest = context.body
    issued = await asyncio.to_thread(
        context.services.credentials.issue_token,
        request.role,
        request.note,
        lifetime_seconds=None if request.expires is None else parse_duration(request.expires),
        max_uses=request.uses,
        person=request.person,
    )
    return json_response(TokenMade(id=issued.id, token=issued.secret))


async def revoke_token(context: RequestContext) -> Response:
    """Revoke a token by its id, or that of a node by the node's id."""
    token_id = context.path_params["token_id"]
    if not await asyncio.to_thread(context.services.credentials.revoke_token, token_id):
        message = f"no valid token and no node has the id {token_id}"
        raise ApiError(HttpError(404, "unknown_token", message))
    return Response(status_code=204)


_PATH = "/api/v1/tokens"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_PATH,
        summary="The valid tokens, without their secrets",
        required_action="administrate",
        handler=list_tokens,
        response=TokenList,
        extra_statuses=(503,),
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        summary="Create a token, which is shown this once",
        required_action="administrate",
        handler=create_token,
        body=TokenRequest,
        response=TokenMade,
        extra_statuses=(503,),
    ),
    Endpoint(
        method="DELETE",
        path=f"{_PATH}/{{token_id}}",
        summary="Revoke a token by its id, or that of a node by the node's id",
        required_action="administrate",
        handler=revoke_token,
        status=204,
        extra_statuses=(404, 503),
    ),
)
