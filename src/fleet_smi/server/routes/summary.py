"""`GET /api/v1/summary`: the fleet in a few numbers, for status lines and prompts."""

from functools import partial
from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.hub.node_summaries import summarize_rows
from fleet_smi.model.fleet_summary import FleetSummary, summarize_fleet
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.response_cache import cached_json_response
from fleet_smi.server.single_flight import iterate_cooperatively
from fleet_smi.wire.json import to_json


class SummaryQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`user` is whose GPUs are counted as `mine`; by default those of the sender."""

    user: Annotated[str, Meta(max_length=128)] | UnsetType = UNSET


async def summary(context: RequestContext) -> Response:
    """GPUs by state, reporting nodes, and the GPUs of one person."""
    return await cached_json_response(context, partial(_encode, context), context.person)


async def _encode(context: RequestContext) -> bytes:
    query: SummaryQuery = context.query
    now, services = context.hub.clock(), context.services
    counted = [
        node
        async for node in iterate_cooperatively(services.summaries.rows(now), services.backpressure)
    ]
    user = context.person if query.user is UNSET else query.user
    users = [count for node in counted for count in node.row.users]
    return to_json(summarize_fleet(now, summarize_rows(counted), users, user))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/summary",
        summary="The fleet in a few numbers: GPUs by state, nodes, and those of one person",
        required_action="view",
        handler=summary,
        query=SummaryQuery,
        response=FleetSummary,
        extra_statuses=(304, 503),
    ),
)
