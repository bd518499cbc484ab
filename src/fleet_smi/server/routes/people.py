"""`GET /api/v1/people`: who holds GPUs now."""

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.model.people import Person, people
from fleet_smi.server.endpoint import Asked, Endpoint, json_response


class PeopleQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everybody, or one person."""

    user: str | UnsetType = UNSET


class People(Struct, frozen=True, kw_only=True):
    """Those with the most GPUs first."""

    people: tuple[Person, ...]


async def everybody(asked: Asked) -> Response:
    """Who holds what, since when, and how much of it idle."""
    query: PeopleQuery = asked.query
    found = (one for one in people(asked.fleet()) if query.user in (UNSET, one.user))
    return json_response(People(people=tuple(found)))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/people",
        summary="Who holds GPUs, since when, and how much of it idle",
        may="view",
        handle=everybody,
        query=PeopleQuery,
        answer=People,
    ),
)
