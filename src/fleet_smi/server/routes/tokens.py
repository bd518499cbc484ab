"""`/api/v1/tokens`: an administrator lists, makes and ends what others may present."""

import asyncio
from typing import Annotated, Literal

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.hub.tokens import Token
from fleet_smi.model.units import parse_duration
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError


class TokenRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who a token is for, and for how long ("7d"; without it, until it is revoked)."""

    role: Literal["viewer", "admin", "join"]
    note: Annotated[str, Meta(max_length=128)] = ""
    expires: Annotated[str, Meta(max_length=16)] | None = None
    uses: Annotated[int, Meta(ge=1, le=100_000)] | None = None


class TokenMade(Struct, frozen=True, kw_only=True):
    """A new token, shown this once: only its hash is kept."""

    id: str
    token: str


class TokenList(Struct, frozen=True, kw_only=True):
    """The tokens that are good, the oldest first."""

    tokens: tuple[Token, ...]


async def list_tokens(context: RequestContext) -> Response:
    """Every token that is good: whose it is and when it was used, never itself."""
    known = await asyncio.to_thread(context.services.credentials.tokens.list_all)
    now = context.hub.clock()
    return json_response(
        TokenList(tokens=tuple(one for one in known if not one.invalid_reason(now)))
    )


async def create_token(context: RequestContext) -> Response:
    """A new token, good at once."""
    wanted: TokenRequest = context.body
    issued = await asyncio.to_thread(
        context.services.credentials.issue_token,
        wanted.role,
        wanted.note,
        lifetime_seconds=None if wanted.expires is None else parse_duration(wanted.expires),
        max_uses=wanted.uses,
    )
    return json_response(TokenMade(id=issued.id, token=issued.secret))


async def revoke_token(context: RequestContext) -> Response:
    """End a token now, and whatever it is used for."""
    which = context.path_params["token_id"]
    if not await asyncio.to_thread(context.services.credentials.revoke_token, which):
        raise ApiError(HttpError(404, "unknown_token", f"no good token or node has the id {which}"))
    return Response(status_code=204)


_PATH = "/api/v1/tokens"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_PATH,
        summary="The tokens that are good; never themselves",
        required_action="administrate",
        handler=list_tokens,
        response=TokenList,
        extra_statuses=(503,),
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        summary="Make a token, which is shown this once",
        required_action="administrate",
        handler=create_token,
        body=TokenRequest,
        response=TokenMade,
        extra_statuses=(503,),
    ),
    Endpoint(
        method="DELETE",
        path=f"{_PATH}/{{token_id}}",
        summary="End a token by its id, or a node's by the node's",
        required_action="administrate",
        handler=revoke_token,
        status=204,
        extra_statuses=(404, 503),
    ),
)
