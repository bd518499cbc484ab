"""`/api/v1/session`: who one is here, and signing in and out of the page."""

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.hub.credentials import Role
from fleet_smi.server.endpoint import ApiError, Asked, Endpoint, json_response
from fleet_smi.server.refusal import Refusal


class Login(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person of this hub."""

    name: str
    password: str


class Session(Struct, frozen=True, kw_only=True):
    """Who the asker is taken for, and how that is known."""

    name: str
    role: Role
    how: str


async def session(asked: Asked) -> Response:
    """Who the asker is."""
    who = asked.who
    if who is None:
        raise ApiError(Refusal(401, "unauthenticated", "say who you are"))
    return json_response(Session(name=who.name, role=who.role, how=who.how))


async def login(asked: Asked) -> Response:
    """Sign in: a cookie for the right password."""
    wanted: Login = asked.body
    answer = await asked.services.access.login(
        asked.request.scope["headers"], asked.peer, wanted.name, wanted.password
    )
    if isinstance(answer, Refusal):
        raise ApiError(answer)
    return _with_cookie(answer)


async def logout(asked: Asked) -> Response:
    """Sign out: the session ends, and its cookie goes."""
    return _with_cookie(await asked.services.access.logout(asked.request.scope["headers"]))


def _with_cookie(header: tuple[bytes, bytes]) -> Response:
    response = Response(status_code=204)
    response.raw_headers.append(header)
    return response


_PATH = "/api/v1/session"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path=_PATH,
        summary="Who the asker is taken for",
        may="view",
        handle=session,
        answer=Session,
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        summary="Sign in with a password",
        may=None,
        handle=login,
        body=Login,
        status=204,
        also=(401, 403, 429),
    ),
    Endpoint(
        method="DELETE",
        path=_PATH,
        summary="Sign out",
        may="view",
        handle=logout,
        status=204,
        also=(503,),
    ),
)
