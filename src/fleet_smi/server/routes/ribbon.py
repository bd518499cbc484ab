"""`GET /api/v1/history/ribbon`: the whole fleet over time, for a time slider."""

from typing import Annotated

from msgspec import Meta
from starlette.responses import Response

from fleet_smi.model.history import Ribbon
from fleet_smi.server.endpoint import Asked, Endpoint
from fleet_smi.server.past import RangeQuery, past_of, range_of, told


class RibbonQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """In so many parts."""

    columns: Annotated[int, Meta(ge=1, le=2000)] = 240


async def ribbon(asked: Asked) -> Response:
    """How many GPUs stood how, how many nodes said so, and where nothing was kept."""
    query: RibbonQuery = asked.query
    span = await range_of(asked, query)
    found = await past_of(asked).ribbon(*span, query.columns)
    return await told(asked, lambda: found)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/ribbon",
        summary="How many GPUs stood how over time, and how many nodes said so",
        may="view",
        handle=ribbon,
        query=RibbonQuery,
        answer=Ribbon,
        also=(404, 503),
    ),
)
