"""`GET /api/v1/history/series/{node_id}`: the figures of one node over time."""

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from fleet_smi.model.history import Series
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext
from fleet_smi.server.history_views import (
    RangeQuery,
    parse_range,
    require_history,
    threaded_json_response,
)
from fleet_smi.server.http_error import HttpError


class SeriesQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At most so many points, each over so long a time as that takes."""

    points: Annotated[int, Meta(ge=1, le=5000)] = 1000


async def series(context: RequestContext) -> Response:
    """What was seen at least, on average and at most in each grain."""
    query: SeriesQuery = context.query
    span = await parse_range(context, query)
    node_id = await _node_id(context)
    found = await require_history(context).series(node_id, *span, query.points)
    return await threaded_json_response(context, lambda: found)


async def _node_id(asked: RequestContext) -> str:
    """The node of that id, or the only one of that name."""
    called = asked.path_params["node_id"]
    nodes = {node.node_id: node.name for node in await require_history(asked).nodes()}
    named = [node_id for node_id, name in nodes.items() if name == called]
    if called in nodes:
        return called
    if len(named) != 1:
        words = f"{len(named)} nodes have the name" if named else "no node has the name or id"
        raise ApiError(HttpError(404, "unknown_node", f"{words} {called}"))
    return named[0]


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/series/{node_id:path}",
        summary="The figures of one node and its GPUs over time",
        required_action="view",
        handler=series,
        query=SeriesQuery,
        response=Series,
        extra_statuses=(404, 503),
    ),
)
