"""`GET /api/v1/people`: who holds GPUs now, or held them at a moment."""

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.model.people import PeopleView, node_holdings, summarize_people
from fleet_smi.server.endpoint import Endpoint, RequestContext, unset_to_none
from fleet_smi.server.history_requests import MomentText, fleet_at
from fleet_smi.server.response_cache import cached_json_response
from fleet_smi.server.single_flight import iterate_cooperatively
from fleet_smi.wire.json import to_json


class PeopleQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everybody, or one person with `holdings`: their GPUs and processes; now, or at a moment."""

    user: str | UnsetType = UNSET
    at: MomentText | UnsetType = UNSET


async def list_people(context: RequestContext) -> Response:
    """Who holds what, since when, and how much of it idle, those with the most GPUs first."""
    query: PeopleQuery = context.query

    async def encode() -> bytes:
        view = await fleet_at(context, query.at)
        holdings = [
            holding
            async for node in iterate_cooperatively(view.nodes, context.services.backpressure)
            for holding in node_holdings(node)
        ]
        return to_json(summarize_people(view, holdings, unset_to_none(query.user)))

    return await cached_json_response(context, encode)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/people",
        summary="Who holds GPUs, since when, and how much of it idle",
        required_action="view",
        handler=list_people,
        query=PeopleQuery,
        response=PeopleView,
        extra_statuses=(304, 404, 503),
    ),
)
