"""`GET /api/v1/filter`: parse a filter, so that the page needs no parser of its own."""

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.errors import UsageError
from fleet_smi.model.filter import Term, parse_filter
from fleet_smi.server.endpoint import Endpoint, RequestContext, json_response


class FilterQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text of a filter, possibly incomplete."""

    text: str = ""


class Meaning(Struct, frozen=True, kw_only=True):
    """The terms of a filter, all of which must match; or the `error` of a text that is invalid."""

    terms: tuple[Term, ...] = ()
    error: str | None = None


async def explain_filter(context: RequestContext) -> Response:
    """Parse a filter; an invalid one is a normal response, because it may be half typed."""
    query: FilterQuery = context.query
    try:
        return json_response(Meaning(terms=parse_filter(query.text).terms))
    except UsageError as error:
        return json_response(Meaning(error=str(error)))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/filter",
        summary="The terms of a filter",
        required_action="view",
        handler=explain_filter,
        query=FilterQuery,
        response=Meaning,
    ),
)
