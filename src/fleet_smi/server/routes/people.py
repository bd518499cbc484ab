"""`GET /api/v1/people`: who holds GPUs now, or held them at a moment."""

from functools import partial

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.people import (
    PeopleView,
    holding_briefs,
    holdings_of,
    people_from_briefs,
)
from fleet_smi.model.views import FleetParts
from fleet_smi.server.endpoint import Endpoint, RequestContext, unset_to_none
from fleet_smi.server.history_requests import MomentText, parts_at
from fleet_smi.server.response_cache import cached_json_response
from fleet_smi.wire.json import to_json


class PeopleQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everybody, or one person with `holdings`: their GPUs and processes; now, or at a moment."""

    user: str | UnsetType = UNSET
    at: MomentText | UnsetType = UNSET


async def list_people(context: RequestContext) -> Response:
    """Who holds what, since when, and how much of it idle, those with the most GPUs first."""
    return await cached_json_response(context, partial(_encode, context))


async def _encode(context: RequestContext) -> bytes:
    query: PeopleQuery = context.query
    fleet = await parts_at(context, query.at)
    # Thousands of nodes take a moment: not on the event loop.
    return await run_in_query_thread(_people, context, fleet, unset_to_none(query.user))


def _people(context: RequestContext, fleet: FleetParts, user: str | None) -> bytes:
    briefs = [(parts, holding_briefs(parts, fleet.taken_at)) for parts in fleet.nodes]
    theirs = [(parts, [one for one in held if user in (None, one.user)]) for parts, held in briefs]
    # Views only of the nodes of one user: everybody's are too many, and not needed.
    views = [context.masked_view(parts) for parts, held in theirs if held and user is not None]
    nodes = [parts.node for parts in fleet.nodes]
    people = PeopleView(
        taken_at=fleet.taken_at,
        summary=fleet.summary,
        people=people_from_briefs((parts.node.name, one) for parts, held in theirs for one in held),
        holdings=tuple(one for view in views for one in holdings_of(user or "", view)),
        silent=tuple(node.name for node in nodes if node.silent),
        failures=tuple(f"{node.name}: {text}" for node in nodes for text in node.failures),
    )
    return to_json(people)


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
