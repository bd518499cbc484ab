"""`/api/v1/personal-tokens`: tokens that people make for themselves, for their commands."""

import asyncio
from typing import Annotated

from msgspec import Meta, Struct
from starlette.responses import Response

from fleet_smi.hub.tokens import Token
from fleet_smi.hub.users import UserRole
from fleet_smi.model.accounts import PersonalTokenMade
from fleet_smi.model.units import parse_duration
from fleet_smi.server.endpoint import (
    ApiError,
    Endpoint,
    RequestContext,
    authorize_request,
    json_response,
)
from fleet_smi.server.http_error import HttpError


class PersonalTokenRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A note and a lifetime ("90d"; without one it is valid until revoked).

    With `name` and `password` it needs no session: `fleet-smi login` exchanges them for a token.
    """

    name: Annotated[str, Meta(max_length=128)] | None = None
    password: Annotated[str, Meta(max_length=1024)] | None = None
    note: Annotated[str, Meta(max_length=128)] = ""
    expires: Annotated[str, Meta(max_length=16)] | None = None


class PersonalTokenList(Struct, frozen=True, kw_only=True):
    """The valid personal tokens of the sender, the oldest first."""

    tokens: tuple[Token, ...]


async def list_own(context: RequestContext) -> Response:
    """The sender's own tokens, without their secrets."""
    return json_response(PersonalTokenList(tokens=tuple(await _own(context))))


async def create_own(context: RequestContext) -> Response:
    """Create a token for whoever is logged in, or whose password is sent along."""
    request: PersonalTokenRequest = context.body
    person, role = await _person(context)
    issued = await asyncio.to_thread(
        context.services.credentials.issue_token,
        role,
        request.note,
        lifetime_seconds=None if request.expires is None else parse_duration(request.expires),
        person=person,
    )
    return json_response(
        PersonalTokenMade(id=issued.id, token=issued.secret, person=person, role=role)
    )


async def revoke_own(context: RequestContext) -> Response:
    """Revoke one of the sender's own tokens."""
    token_id = context.path_params["token_id"]
    if token_id == "current" and context.identity is not None:  # noqa: S105  # no secret
        token_id = context.identity.token_id or ""
    if token_id not in [token.id for token in await _own(context)]:
        raise ApiError(HttpError(404, "unknown_token", f"you have no valid token {token_id}"))
    await asyncio.to_thread(context.services.credentials.revoke_token, token_id)
    return Response(status_code=204)


async def _person(context: RequestContext) -> tuple[str, UserRole]:
    request: PersonalTokenRequest = context.body
    if request.name is not None:
        role = await context.services.access.check_password(
            context.request.scope["headers"], context.peer, request.name, request.password or ""
        )
        if isinstance(role, HttpError):
            raise ApiError(role)
        return request.name, role
    identity = authorize_request(context.request, context.services, "act")
    # Not with a token: one that leaked could make others that outlive it.
    if identity.auth_method not in ("session", "proxy") or identity.person is None:
        message = "log in with a password, or ask an admin for a personal token"
        raise ApiError(HttpError(403, "login_required", message))
    return identity.person, "admin" if identity.role == "admin" else "viewer"


async def _own(context: RequestContext) -> list[Token]:
    person = None if context.identity is None else context.identity.person
    tokens = await asyncio.to_thread(context.services.credentials.tokens.list_all)
    now = context.hub.clock()
    return [
        token
        for token in tokens
        if person is not None and token.person == person and not token.invalid_reason(now)
    ]


_PATH = "/api/v1/personal-tokens"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_PATH,
        summary="Your valid personal tokens, without their secrets",
        required_action="act",
        handler=list_own,
        response=PersonalTokenList,
        extra_statuses=(503,),
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        summary="Create a personal token, which is shown this once",
        required_action=None,
        handler=create_own,
        body=PersonalTokenRequest,
        response=PersonalTokenMade,
        extra_statuses=(401, 403, 429, 503),
    ),
    Endpoint(
        method="DELETE",
        path=f"{_PATH}/{{token_id}}",
        summary="Revoke one of your tokens by its id; `current` is the one of the request",
        required_action="act",
        handler=revoke_own,
        status=204,
        extra_statuses=(404, 503),
    ),
)
