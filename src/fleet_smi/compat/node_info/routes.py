"""HTTP route `/get-status` of gpu-cluster-monitor, served only where its password is set."""

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.compat.node_info.codec import MainStatus, encode_main_status
from fleet_smi.compat.settings_order import in_settings_order
from fleet_smi.compat.status_response import encode_response
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext
from fleet_smi.server.http_error import HttpError

_NOT_SERVED = HttpError(
    404, "not_served", "not served by this hub: set hub.get_status_password to enable it"
)


class Passwd(Struct, frozen=True):
    """The request body of gpu-cluster-monitor's main node and page."""

    passwd: str


async def status_for_viewer(context: RequestContext) -> Response:
    """Return every node to a viewer of the hub."""
    _require_password_set(context)
    return await _main_status(context)


async def status_for_password(context: RequestContext) -> Response:
    """Return every node to a client that sends the password."""
    headers, sent = context.request.scope["headers"], context.body.passwd
    # Checked here and not by a role: gpu-cluster-monitor sends no token, only this password.
    refusal = context.services.access.check_shared_password(
        headers, context.peer, sent, _require_password_set(context)
    )
    if refusal is not None:
        raise ApiError(refusal)
    return await _main_status(context)


async def _main_status(context: RequestContext) -> Response:
    # As in hosts.txt, which people arrange: by rack, by age, the best machines first.
    view = in_settings_order(await context.fleet_view(), context.hub)
    return await encode_response(encode_main_status, view)


def _require_password_set(context: RequestContext) -> str:
    """Return the configured password; answer 404 where none is set."""
    password = context.services.get_status_password
    if password is None:
        raise ApiError(_NOT_SERVED)
    return password


_SUMMARY = "Every node, in the format of gpu-cluster-monitor's main node"
ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/get-status",
        summary=_SUMMARY,
        required_action="view",
        handler=status_for_viewer,
        response=MainStatus,
        extra_statuses=(404,),
    ),
    Endpoint(
        method="POST",
        path="/get-status",
        summary=f"{_SUMMARY}, by password",
        required_action=None,
        handler=status_for_password,
        body=Passwd,
        response=MainStatus,
        extra_statuses=(403, 404, 429),
    ),
)
