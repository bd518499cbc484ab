"""`GET /api/v1/people`: who holds GPUs now."""

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.model.people import Person, holders, holdings_on
from fleet_smi.server.answers import shared_answer
from fleet_smi.server.endpoint import Asked, Endpoint
from fleet_smi.server.past import MomentText, fleet_then
from fleet_smi.server.shared import in_turns
from fleet_smi.wire.listing import to_json


class PeopleQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everybody, or one person; now, or at a moment."""

    user: str | UnsetType = UNSET
    at: MomentText | UnsetType = UNSET


class People(Struct, frozen=True, kw_only=True):
    """Those with the most GPUs first."""

    people: tuple[Person, ...]


async def everybody(asked: Asked) -> Response:
    """Who holds what, since when, and how much of it idle."""
    query: PeopleQuery = asked.query

    async def encode() -> bytes:
        view = await fleet_then(asked, query.at)
        held = [one async for node in in_turns(view.nodes) for one in holdings_on(node)]
        found = (one for one in holders(held) if query.user in (UNSET, one.user))
        return to_json(People(people=tuple(found)))

    return await shared_answer(asked, encode)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/people",
        summary="Who holds GPUs, since when, and how much of it idle",
        may="view",
        handle=everybody,
        query=PeopleQuery,
        answer=People,
        also=(304, 404, 503),
    ),
)
