"""`GET /api/v1/history/usage`: what people, nodes and models come to."""

from typing import Literal

from starlette.responses import Response

from fleet_smi.model.history import Usages
from fleet_smi.server.endpoint import Asked, Endpoint
from fleet_smi.server.past import RangeQuery, past_of, range_of, told


class UsageQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For whom it is summed up; `daily` tells each day as well."""

    by: Literal["user", "group", "node", "model", "gpu"] = "user"
    daily: bool = False


async def usage(asked: Asked) -> Response:
    """GPU-seconds, how busy they were, how idle, and what energy they took."""
    query: UsageQuery = asked.query
    span = await range_of(asked, query)
    found = await past_of(asked).usages(*span, query.by, daily=query.daily)
    return await told(asked, lambda: found)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/usage",
        summary="GPU time, load, idle time and energy of each user, group, node, model or GPU",
        may="view",
        handle=usage,
        query=UsageQuery,
        answer=Usages,
        also=(404, 503),
    ),
)
