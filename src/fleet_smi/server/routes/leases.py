"""`GET /api/v1/leases`: who has leased which GPU."""

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.leases import LeaseRow, list_leases
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.response_cache import cached_json_response
from fleet_smi.wire.json import to_json


class LeaseList(Struct, frozen=True, kw_only=True):
    """The leases, in the order of the fleet, and how many GPUs are used without one."""

    taken_at: float
    leases: tuple[LeaseRow, ...]
    without: int = 0


async def leases(context: RequestContext) -> Response:
    """Every lease of the fleet, with its holder and until when it lasts."""

    async def encode() -> bytes:
        view = await context.fleet_view()

        def build() -> bytes:
            rows = list_leases(view)
            held = tuple([row for row in rows if row.lease is not None])
            without = len({row.uuid for row in rows if row.lease is None})
            return to_json(LeaseList(taken_at=view.taken_at, leases=held, without=without))

        return await run_in_query_thread(build)

    return await cached_json_response(context, encode)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/leases",
        summary="Who has leased which GPU",
        required_action="view",
        handler=leases,
        response=LeaseList,
        extra_statuses=(304, 503),
    ),
)
