"""`GET /api/v1/fleet`: the whole fleet or the part that filters select, now or at a moment."""

from functools import partial
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from fleet_smi.model.fleet import FleetPage
from fleet_smi.model.view_options import ViewOptions
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.fleet_pages import (
    MAX_CACHED_NODES,
    MAX_PAGE_NODES,
    encode_page,
    streamed_response,
)
from fleet_smi.server.fleet_query import SelectionQuery, view_options_from_query
from fleet_smi.server.history_requests import fleet_at
from fleet_smi.server.response_cache import cached_json_response
from fleet_smi.server.single_flight import iterate_cooperatively
from fleet_smi.wire.json import fleet_json_from_encoded, to_json


class FleetQuery(SelectionQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Filters as of an overview; `limit` requests a page, `after` is the `next` of the one before.

    Without a `limit` the response has every node.
    """

    limit: Annotated[int, Meta(ge=1, le=MAX_PAGE_NODES)] | UnsetType = UNSET
    after: Annotated[str, Meta(max_length=2048)] | UnsetType = UNSET


async def fleet(context: RequestContext) -> Response:
    """The fleet as JSON, or 304 if the client has this version already."""
    query: FleetQuery = context.query
    options = view_options_from_query(query)
    if query.limit is UNSET and query.after is UNSET:
        if query.at is UNSET and context.hub.shown.node_count > MAX_CACHED_NODES:
            return streamed_response(context, options)
        return await cached_json_response(context, partial(_encode, context, options))

    async def encode() -> bytes:
        limit = MAX_PAGE_NODES if query.limit is UNSET else query.limit
        page = await encode_page(context, options, limit, query.after, query.at)
        return page.to_json()

    return await cached_json_response(context, encode)


async def _encode(context: RequestContext, options: ViewOptions) -> bytes:
    view = await fleet_at(context, context.query.at)
    nodes = [
        to_json(node)
        async for node in iterate_cooperatively(
            options.apply_to_nodes(view.nodes), context.services.backpressure
        )
    ]
    return fleet_json_from_encoded(view.taken_at, view.summary, nodes)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/fleet",
        summary="The fleet, or a page of it: every node, its GPUs, the verdict on each",
        required_action="view",
        handler=fleet,
        query=FleetQuery,
        response=FleetPage,
        extra_statuses=(304, 404, 503),
    ),
)
