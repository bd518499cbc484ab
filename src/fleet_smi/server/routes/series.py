"""`GET /api/v1/history/series/{node_id}`: the figures of one node over time."""

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from fleet_smi.model.history import Series
from fleet_smi.server.endpoint import ApiError, Asked, Endpoint
from fleet_smi.server.past import RangeQuery, past_of, range_of, told
from fleet_smi.server.refusal import Refusal


class SeriesQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """At most so many points, each over so long a time as that takes."""

    points: Annotated[int, Meta(ge=1, le=5000)] = 1000


async def series(asked: Asked) -> Response:
    """What was seen at least, on average and at most in each grain."""
    query: SeriesQuery = asked.query
    span = await range_of(asked, query)
    node_id = await _node_id(asked)
    found = await past_of(asked).series(node_id, *span, query.points)
    return await told(asked, lambda: found)


async def _node_id(asked: Asked) -> str:
    """The node of that id, or the only one of that name."""
    called = asked.path["node_id"]
    nodes = {node.node_id: node.name for node in await past_of(asked).nodes()}
    named = [node_id for node_id, name in nodes.items() if name == called]
    if called in nodes:
        return called
    if len(named) != 1:
        words = f"{len(named)} nodes have the name" if named else "no node has the name or id"
        raise ApiError(Refusal(404, "unknown_node", f"{words} {called}"))
    return named[0]


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/series/{node_id:path}",
        summary="The figures of one node and its GPUs over time",
        may="view",
        handle=series,
        query=SeriesQuery,
        answer=Series,
        also=(404, 503),
    ),
)
