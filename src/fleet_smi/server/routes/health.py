"""`/healthz` and `/readyz`: whether the process lives, and whether it hears nodes."""

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError


class Health(Struct, frozen=True, kw_only=True):
    """Fine is all there is to say; what is not fine is an error."""

    status: str = "ok"


async def liveness(_: RequestContext) -> Response:
    """The event loop turns."""
    return json_response(Health())


async def readiness(context: RequestContext) -> Response:
    """What is known has been recalled and the sources run."""
    if not context.hub.ready:
        raise ApiError(HttpError(503, "not_ready", "the hub is starting"))
    return json_response(Health())


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/healthz",
        summary="Whether the hub lives",
        required_action=None,
        handler=liveness,
        response=Health,
    ),
    Endpoint(
        method="GET",
        path="/readyz",
        summary="Whether the hub hears its nodes",
        required_action=None,
        handler=readiness,
        response=Health,
        extra_statuses=(503,),
    ),
)
