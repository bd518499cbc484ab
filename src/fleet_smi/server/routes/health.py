"""`/healthz` and `/readyz`: whether the process lives, and whether it hears nodes."""

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.server.endpoint import ApiError, Asked, Endpoint, json_response
from fleet_smi.server.refusal import Refusal


class Health(Struct, frozen=True, kw_only=True):
    """Fine is all there is to say; what is not fine is an error."""

    status: str = "ok"


async def alive(_: Asked) -> Response:
    """The event loop turns."""
    return json_response(Health())


async def ready(asked: Asked) -> Response:
    """What is known has been recalled and the sources run."""
    if not asked.hub.ready:
        raise ApiError(Refusal(503, "not_ready", "the hub is starting"))
    return json_response(Health())


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/healthz",
        summary="Whether the hub lives",
        may=None,
        handle=alive,
        answer=Health,
    ),
    Endpoint(
        method="GET",
        path="/readyz",
        summary="Whether the hub hears its nodes",
        may=None,
        handle=ready,
        answer=Health,
        also=(503,),
    ),
)
