"""`/healthz` and `/readyz`: liveness and readiness of the hub, for probes."""

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError


class Health(Struct, frozen=True, kw_only=True):
    """The response of a healthy hub; anything else is an error."""

    status: str = "ok"


async def liveness(_: RequestContext) -> Response:
    """Answer as long as the event loop runs."""
    return json_response(Health())


async def readiness(context: RequestContext) -> Response:
    """Answer once saved nodes are loaded and the sources run; 503 before."""
    if not context.hub.ready:
        raise ApiError(HttpError(503, "not_ready", "the hub is starting"))
    return json_response(Health())


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/healthz",
        summary="Liveness: the process runs",
        required_action=None,
        handler=liveness,
        response=Health,
    ),
    Endpoint(
        method="GET",
        path="/readyz",
        summary="Readiness: the hub receives reports",
        required_action=None,
        handler=readiness,
        response=Health,
        extra_statuses=(503,),
    ),
)
