"""`GET /api/v1/history/ribbon`: GPUs by state over time for the whole fleet, for a time slider."""

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from fleet_smi.model.history import Ribbon
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.history_requests import (
    RangeQuery,
    parse_range,
    require_history,
    threaded_json_response,
)


class RibbonQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time range, divided into `columns` equal parts."""

    columns: Annotated[int, Meta(ge=1, le=2000)] = 240


async def ribbon(context: RequestContext) -> Response:
    """GPUs by state and reporting nodes in each column, and the gaps of the history."""
    query: RibbonQuery = context.query
    span = await parse_range(context, query)
    found = await require_history(context).ribbon(*span, query.columns)
    return await threaded_json_response(context, lambda: found)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/ribbon",
        summary="GPUs by state and reporting nodes over time",
        required_action="view",
        handler=ribbon,
        query=RibbonQuery,
        response=Ribbon,
        extra_statuses=(404, 503),
    ),
)
