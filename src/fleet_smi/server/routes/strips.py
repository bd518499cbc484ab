"""`GET /api/v1/history/strips`: rows are GPUs, columns are time."""

from collections.abc import Collection
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from fleet_smi.hub.history.series.series_row import GpuKey
from fleet_smi.model.filter import parse_filter
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.history import GpuOfNode, Strip, Strips
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.history_views import (
    GlobText,
    RangeQuery,
    check_limit,
    fleet_at,
    matches_node,
    parse_range,
    require_history,
    threaded_json_response,
)

_MOST_CELLS = 5_000_000


class StripsQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`filter` chooses GPUs by how they stood at the end, `node` by name or id."""

    columns: Annotated[int, Meta(ge=1, le=2000)] = 240
    node: GlobText | UnsetType = UNSET
    filter: str | UnsetType = UNSET


async def strips(context: RequestContext) -> Response:
    """What each GPU was, and whose, column by column."""
    query: StripsQuery = context.query
    span = await parse_range(context, query)
    gpus = await _chosen(context, query)
    check_limit(len(gpus) * query.columns, _MOST_CELLS, "cells", "ask for fewer columns or GPUs")
    drawn = await require_history(context).strips(gpus, *span, query.columns)

    def answer() -> Strips:
        rows = (Strip(gpu=gpu, runs=drawn.get((gpu.node_id, gpu.uuid), ())) for gpu in gpus)
        return Strips(start=span.start, end=span.end, columns=query.columns, rows=tuple(rows))

    return await threaded_json_response(context, answer)


async def _chosen(asked: RequestContext, query: StripsQuery) -> list[GpuOfNode]:
    """The GPUs that were known at the end of the range, as far as they are asked for."""
    view = await fleet_at(asked, query.until)
    passing = _passing(view, "" if query.filter is UNSET else query.filter)
    return [
        gpu
        for gpu in await require_history(asked).gpus()
        if (gpu.node_id, gpu.uuid) in passing
        and (query.node is UNSET or matches_node(gpu, query.node))
    ]


def _passing(view: FleetView, text: str) -> Collection[GpuKey]:
    """The GPUs that pass a filter, and their instances with them."""
    chosen = parse_filter(text)
    return {
        (node.node_id, uuid)
        for node in view.nodes
        for gpu in node.gpus
        if chosen.matches(node, gpu)
        for uuid in (gpu.uuid, *[part.uuid for part in gpu.instances])
    }


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/strips",
        summary="How every GPU stood over time, and whose it was: a heat strip",
        required_action="view",
        handler=strips,
        query=StripsQuery,
        response=Strips,
        extra_statuses=(404, 503),
    ),
)
