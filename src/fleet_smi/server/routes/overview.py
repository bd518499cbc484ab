"""`GET /api/v1/overview`: one row per node, now or at a moment."""

from functools import partial

from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi import __version__
from fleet_smi.hub.node_summaries import summarize_rows
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.agent_versions import mark_behind
from fleet_smi.model.node_summary import FleetOverview, parts_overview
from fleet_smi.model.view_options import ViewOptions
from fleet_smi.model.views import FleetParts
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.fleet_query import SelectionQuery, view_options_from_query
from fleet_smi.server.history_requests import is_live, parts_at
from fleet_smi.server.response_cache import cached_json_response
from fleet_smi.server.single_flight import iterate_cooperatively
from fleet_smi.wire.json import to_json


async def overview(context: RequestContext) -> Response:
    """The selected nodes, with their GPUs counted by state, model and user."""
    options = view_options_from_query(context.query)
    return await cached_json_response(context, partial(_encode, context, options))


async def _encode(context: RequestContext, options: ViewOptions) -> bytes:
    is_now = is_live(context, context.query.at)
    if options.selects_names and is_now:
        overview = options.apply_to_overview(await _live_overview(context))
        return await run_in_query_thread(to_json, mark_behind(overview, __version__))
    fleet = await parts_at(context, context.query.at)
    # Thousands of nodes take a moment: not on the event loop.
    return await run_in_query_thread(_overview, fleet, options, __version__ if is_now else None)


async def _live_overview(context: RequestContext) -> FleetOverview:
    now, services = context.hub.clock(), context.services
    counted = [
        node
        async for node in iterate_cooperatively(services.summaries.rows(now), services.backpressure)
    ]
    rows = tuple([node.row for node in counted])
    return FleetOverview(taken_at=now, summary=summarize_rows(counted), nodes=rows)


def _overview(fleet: FleetParts, options: ViewOptions, hub_version: str | None) -> bytes:
    selected = [parts for each in fleet.nodes if (parts := options.select(each)) is not None]
    overview = parts_overview(replace(fleet, nodes=tuple(selected)))
    # Which agents were behind at a past moment is not known: the hub was another one, too.
    return to_json(overview if hub_version is None else mark_behind(overview, hub_version))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/overview",
        summary="One row per node, with its GPUs counted by state, model and user",
        required_action="view",
        handler=overview,
        query=SelectionQuery,
        response=FleetOverview,
        extra_statuses=(304, 404, 503),
    ),
)
