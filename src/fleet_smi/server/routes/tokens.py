"""`/api/v1/tokens`: an administrator lists, makes and ends what others may present."""

import asyncio
from typing import Annotated, Literal

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.hub.tokens import Token
from fleet_smi.model.units import parse_duration
from fleet_smi.server.endpoint import ApiError, Asked, Endpoint, json_response
from fleet_smi.server.refusal import Refusal


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


async def listed(asked: Asked) -> Response:
    """Every token that is good: whose it is and when it was used, never itself."""
    known = await asyncio.to_thread(asked.services.credentials.tokens.all)
    now = asked.hub.clock()
    return json_response(TokenList(tokens=tuple(one for one in known if not one.trouble(now))))


async def make(asked: Asked) -> Response:
    """A new token, good at once."""
    wanted: TokenRequest = asked.body
    issued = await asyncio.to_thread(
        asked.services.credentials.issue,
        wanted.role,
        wanted.note,
        for_seconds=None if wanted.expires is None else parse_duration(wanted.expires),
        uses=wanted.uses,
    )
    return json_response(TokenMade(id=issued.id, token=issued.secret))


async def revoke(asked: Asked) -> Response:
    """End a token now, and whatever it is used for."""
    which = asked.path["token_id"]
    if not await asyncio.to_thread(asked.services.credentials.revoke, which):
        raise ApiError(Refusal(404, "unknown_token", f"no good token or node has the id {which}"))
    return Response(status_code=204)


_PATH = "/api/v1/tokens"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_PATH,
        summary="The tokens that are good; never themselves",
        may="administrate",
        handle=listed,
        answer=TokenList,
        also=(503,),
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        summary="Make a token, which is shown this once",
        may="administrate",
        handle=make,
        body=TokenRequest,
        answer=TokenMade,
        also=(503,),
    ),
    Endpoint(
        method="DELETE",
        path=f"{_PATH}/{{token_id}}",
        summary="End a token by its id, or a node's by the node's",
        may="administrate",
        handle=revoke,
        status=204,
        also=(404, 503),
    ),
)
