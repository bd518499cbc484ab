"""`GET /api/v1/history/state`: how much of the past is kept, and what is missing of it."""

from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.model.past import Kept
from fleet_smi.server.endpoint import Asked, Endpoint
from fleet_smi.server.past import past_of, told


async def kept(asked: Asked) -> Response:
    """What is kept for how long, and what it takes on the disk."""
    services = asked.services
    found = await past_of(asked).kept()
    priced = replace(found, energy_price=services.energy_price, currency=services.currency)
    return await told(asked, lambda: priced)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/state",
        summary="How much of the past is kept, what it takes, and what is missing of it",
        may="view",
        handle=kept,
        answer=Kept,
        also=(404, 503),
    ),
)
