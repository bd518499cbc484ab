"""`/api/v1/session`: log in to the page, log out, and who is logged in."""

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.model.accounts import SessionInfo
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError


class PasswordLogin(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The credentials of a user of this hub."""

    name: str
    password: str


async def get_session(context: RequestContext) -> Response:
    """Who the client is authenticated as."""
    identity = context.identity
    if identity is None:
        raise ApiError(HttpError(401, "unauthenticated", "authentication required"))
    info = SessionInfo(
        name=identity.name,
        role=identity.role,
        how=identity.auth_method,
        person=identity.person,
    )
    return json_response(info)


async def login(context: RequestContext) -> Response:
    """Log in: set the session cookie if name and password are right."""
    credentials: PasswordLogin = context.body
    cookie = await context.services.access.login(
        context.request.scope["headers"], context.peer, credentials.name, credentials.password
    )
    if isinstance(cookie, HttpError):
        raise ApiError(cookie)
    return _with_cookie(cookie)


async def logout(context: RequestContext) -> Response:
    """Log out: revoke the session and delete its cookie."""
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
        summary="The identity of the sender",
        required_action="view",
        handler=get_session,
        response=SessionInfo,
    ),
    Endpoint(
        method="POST",
        path=_PATH,
        summary="Log in with a password",
        required_action=None,
        handler=login,
        body=PasswordLogin,
        status=204,
        extra_statuses=(401, 403, 429),
    ),
    Endpoint(
        method="DELETE",
        path=_PATH,
        summary="Log out",
        required_action="view",
        handler=logout,
        status=204,
        extra_statuses=(503,),
    ),
)
