"""`GET /api/v1/history/usage`: usage totals per user, group, node, model or GPU."""

from typing import Literal

from starlette.responses import Response

from fleet_smi.model.history import Usages
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.history_requests import (
    RangeQuery,
    parse_range,
    require_history,
    threaded_json_response,
)


class UsageQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time range and what to group by; `daily` adds the totals of each day."""

    by: Literal["user", "group", "node", "model", "gpu"] = "user"
    daily: bool = False


async def usage(context: RequestContext) -> Response:
    """GPU seconds, utilisation, idle time and energy of each group."""
    query: UsageQuery = context.query
    span = await parse_range(context, query)
    found = await require_history(context).usages(*span, query.by, daily=query.daily)
    return await threaded_json_response(context, lambda: found)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/usage",
        summary="GPU time, load, idle time and energy of each user, group, node, model or GPU",
        required_action="view",
        handler=usage,
        query=UsageQuery,
        response=Usages,
        extra_statuses=(404, 503),
    ),
)
