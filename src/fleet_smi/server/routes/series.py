"""`GET /api/v1/history/series/{node_id}`: the metrics of one node and its GPUs over time."""

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from fleet_smi.model.history import Series
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext
from fleet_smi.server.history_requests import (
    RangeQuery,
    parse_range,
    require_history,
    threaded_json_response,
)
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.site_nodes import require_own_node


class SeriesQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time range; the finest resolution with at most `points` points is returned."""

    points: Annotated[int, Meta(ge=1, le=5000)] = 1000


async def series(context: RequestContext) -> Response:
    """Minimum, mean and maximum of each metric per time step."""
    query: SeriesQuery = context.query
    span = await parse_range(context, query)
    node_id = await _node_id(context)
    found = await require_history(context).series(node_id, *span, query.points)
    return await threaded_json_response(context, lambda: found)


async def _node_id(context: RequestContext) -> str:
    """The id of the node with that id or, if it is the only one, with that name."""
    id_or_name = context.path_params["node_id"]
    require_own_node(context, id_or_name)
    names = {node.node_id: node.name for node in await require_history(context).nodes()}
    matches = [node_id for node_id, name in names.items() if name == id_or_name]
    if id_or_name in names:
        return id_or_name
    if len(matches) != 1:
        reason = f"{len(matches)} nodes have the name" if matches else "no node has the name or id"
        raise ApiError(HttpError(404, "unknown_node", f"{reason} {id_or_name}"))
    return matches[0]


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/series/{node_id:path}",
        summary="The metrics of one node and its GPUs over time",
        required_action="view",
        handler=series,
        query=SeriesQuery,
        response=Series,
        extra_statuses=(404, 409, 503),
    ),
)
