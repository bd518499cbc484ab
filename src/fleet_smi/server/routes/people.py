"""`GET /api/v1/people`: who holds GPUs now."""

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.model.people import Person, node_holdings, people_from_holdings
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.history_views import MomentText, fleet_at
from fleet_smi.server.responses import cached_json_response
from fleet_smi.server.single_flight import iterate_cooperatively
from fleet_smi.wire.json import to_json


class PeopleQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everybody, or one person; now, or at a moment."""

    user: str | UnsetType = UNSET
    at: MomentText | UnsetType = UNSET


class People(Struct, frozen=True, kw_only=True):
    """Those with the most GPUs first."""

    people: tuple[Person, ...]


async def list_people(context: RequestContext) -> Response:
    """Who holds what, since when, and how much of it idle."""
    query: PeopleQuery = context.query

    async def encode() -> bytes:
        view = await fleet_at(context, query.at)
        held = [
            one async for node in iterate_cooperatively(view.nodes) for one in node_holdings(node)
        ]
        found = (one for one in people_from_holdings(held) if query.user in (UNSET, one.user))
        return to_json(People(people=tuple(found)))

    return await cached_json_response(context, encode)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/people",
        summary="Who holds GPUs, since when, and how much of it idle",
        required_action="view",
        handler=list_people,
        query=PeopleQuery,
        response=People,
        extra_statuses=(304, 404, 503),
    ),
)
