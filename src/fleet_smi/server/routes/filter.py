"""`GET /api/v1/filter`: what a filter means, so that a page needs no parser of its own."""

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.errors import UsageError
from fleet_smi.model.filter import Term, parse_filter
from fleet_smi.server.endpoint import Endpoint, RequestContext, json_response


class FilterQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The text, as somebody types it."""

    text: str = ""


class Meaning(Struct, frozen=True, kw_only=True):
    """The terms, all of which must match; or, in `error`, why the text makes no sense yet."""

    terms: tuple[Term, ...] = ()
    error: str | None = None


async def explain_filter(context: RequestContext) -> Response:
    """A text that makes no sense is an answer too: it may be half typed."""
    query: FilterQuery = context.query
    try:
        return json_response(Meaning(terms=parse_filter(query.text).terms))
    except UsageError as error:
        return json_response(Meaning(error=str(error)))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/filter",
        summary="What a filter means",
        required_action="view",
        handler=explain_filter,
        query=FilterQuery,
        response=Meaning,
    ),
)
