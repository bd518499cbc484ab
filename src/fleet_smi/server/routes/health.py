"""`/healthz` and `/readyz`: liveness and readiness of the hub, for probes."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext, json_response
from fleet_smi.server.http_error import HttpError


class Health(Struct, frozen=True, kw_only=True):
    """The response of a hub that works; anything else is an error.

    It is `degraded` where it receives reports and cannot save all of them: `problems` says what.
    """

    status: Literal["ok", "degraded"] = "ok"
    problems: tuple[str, ...] | UnsetType = UNSET


async def liveness(_: RequestContext) -> Response:
    """Answer as long as the event loop runs."""
    return json_response(Health())


async def readiness(context: RequestContext) -> Response:
    """Answer once saved nodes are loaded and the sources run; 503 before.

    A full disk is no 503: the hub still shows the fleet, and agents keep what it cannot save.
    """
    if not context.hub.ready:
        raise ApiError(HttpError(503, "not_ready", "the hub is starting"))
    # Without the errors themselves: this is for everybody who can connect.
    problems = tuple([problem.message for problem in context.services.problems.current()])
    return json_response(Health(status="degraded", problems=problems) if problems else Health())


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
