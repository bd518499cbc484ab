"""`GET /install` and its wheels: how a node gets its agent from the hub, without internet.

The script is for everybody: it has no secret, and the line that runs it has its checksum. The
wheels need a join token, the credential of a node, or an admin.
"""

import asyncio

from msgspec import Struct
from starlette.responses import Response

from fleet_smi import __version__
from fleet_smi.hub.wheelhouse import WheelFile
from fleet_smi.server.auth import bearer_token
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.install_script import render_install_script

_SCRIPT_TYPE, _WHEEL_TYPE = "text/x-shellscript", "application/zip"
_BAD_TOKEN = HttpError(
    403,
    "refused",
    "wheels need a valid join token: get one with `fleet-smi hub join-command`",
)


class WheelList(Struct, frozen=True, kw_only=True):
    """The hub's version, and the wheels that agents of this version are installed from."""

    version: str
    wheels: tuple[WheelFile, ...]


async def install_script(context: RequestContext) -> Response:
    """The script that installs the agent, joins and starts it."""
    wheels = await asyncio.to_thread(context.services.wheelhouse.list_wheels)
    script = await asyncio.to_thread(render_install_script, wheels)
    return Response(script, media_type=f"{_SCRIPT_TYPE}; charset=utf-8")


async def list_wheels(context: RequestContext) -> Response:
    """The wheels and their checksums."""
    await _require_token(context)
    wheels = await asyncio.to_thread(context.services.wheelhouse.list_wheels)
    return json_response(WheelList(version=__version__, wheels=wheels))


async def wheel(context: RequestContext) -> Response:
    """One wheel."""
    await _require_token(context)
    name = context.path_params["name"]
    body = await asyncio.to_thread(context.services.wheelhouse.read, name)
    if body is None:
        raise ApiError(HttpError(404, "not_found", "the hub has no such wheel"))
    return Response(body, media_type=_WHEEL_TYPE)


async def _require_token(context: RequestContext) -> None:
    """Raise `ApiError` without a join token, a node's credential or an admin's token."""
    headers, services = context.request.scope["headers"], context.services
    token = bearer_token(headers) or ""
    identity = services.credentials.identify_token(token)
    is_known = identity is not None and identity.role in ("node", "admin")
    if is_known or services.credentials.is_join_token(token):
        return
    # `hub join-command` may have stored it since the last refresh; its line is pasted at once.
    await asyncio.to_thread(services.credentials.refresh)
    if not services.credentials.is_join_token(token):
        raise ApiError(services.access.record_failure(headers, context.peer, _BAD_TOKEN))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/install",
        summary="The script that installs an agent from this hub",
        required_action=None,
        handler=install_script,
        response=str,
        response_media_types=(_SCRIPT_TYPE,),
        extra_statuses=(503,),
    ),
    Endpoint(
        method="GET",
        path="/install/wheels",
        summary="The wheels of an agent and their checksums, for a join token or a node",
        required_action=None,
        handler=list_wheels,
        response=WheelList,
        extra_statuses=(403, 429, 503),
    ),
    Endpoint(
        method="GET",
        path="/install/wheels/{name}",
        summary="A wheel, for a join token or a node",
        required_action=None,
        handler=wheel,
        response=str,
        response_media_types=(_WHEEL_TYPE,),
        extra_statuses=(403, 404, 429, 503),
    ),
)
