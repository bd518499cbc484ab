"""`/api/v1/session`: who one is here, and signing in and out of the page."""

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.hub.credentials import Role
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError


class Login(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person of this hub."""

    name: str
    password: str


class SessionInfo(Struct, frozen=True, kw_only=True):
    """Who the asker is taken for, and how that is known."""

    name: str
    role: Role
    how: str


async def get_session(context: RequestContext) -> Response:
    """Who the asker is."""
    who = context.identity
    if who is None:
        raise ApiError(HttpError(401, "unauthenticated", "say who you are"))
    return json_response(SessionInfo(name=who.name, role=who.role, how=who.auth_method))


async def login(context: RequestContext) -> Response:
    """Sign in: a cookie for the right password."""
    wanted: Login = context.body
    answer = await context.services.access.login(
        context.request.scope["headers"], context.peer, wanted.name, wanted.password
    )
    if isinstance(answer, HttpError):
        raise ApiError(answer)
    return _with_cookie(answer)


async def logout(context: RequestContext) -> Response:
    """Sign out: the session ends, and its cookie goes."""
    return _with_cookie(await context.services.access.logout(context.request.scope["headers"]))


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
        required_action="view",
        handler=get_session,
        response=SessionInfo,
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        summary="Sign in with a password",
        required_action=None,
        handler=login,
        body=Login,
        status=204,
        extra_statuses=(401, 403, 429),
    ),
    Endpoint(
        method="DELETE",
        path=_PATH,
        summary="Sign out",
        required_action="view",
        handler=logout,
        status=204,
        extra_statuses=(503,),
    ),
)
