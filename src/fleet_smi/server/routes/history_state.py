"""`GET /api/v1/history/state`: retention, size and gaps of the history."""

from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.model.history_responses import StorageStatus
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.history_requests import require_history, threaded_json_response


async def history_state(context: RequestContext) -> Response:
    """The retention of each resolution, the size on disk, and where records are missing."""
    services = context.services
    found = await require_history(context).storage_status()
    priced = replace(found, energy_price=services.energy_price, currency=services.currency)
    return await threaded_json_response(context, lambda: priced)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/state",
        summary="Retention of the history, its size on disk, and its gaps",
        required_action="view",
        handler=history_state,
        response=StorageStatus,
        extra_statuses=(404, 503),
    ),
)
