"""`GET /api/v1/history/state`: how much of the past is kept, and what is missing of it."""

from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.model.history_responses import StorageStatus
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.history_views import require_history, threaded_json_response


async def history_state(context: RequestContext) -> Response:
    """What is kept for how long, and what it takes on the disk."""
    services = context.services
    found = await require_history(context).storage_status()
    priced = replace(found, energy_price=services.energy_price, currency=services.currency)
    return await threaded_json_response(context, lambda: priced)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/state",
        summary="How much of the past is kept, what it takes, and what is missing of it",
        required_action="view",
        handler=history_state,
        response=StorageStatus,
        extra_statuses=(404, 503),
    ),
)
