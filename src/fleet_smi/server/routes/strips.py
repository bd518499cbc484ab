"""`GET /api/v1/history/strips`: a heat map of states and users, one row per GPU over time."""

from collections.abc import Collection, Iterable
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from fleet_smi.hub.history.series.series_row import GpuKey
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.filter import parse_filter
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.history import GpuOfNode, Strip, Strips
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.history_requests import (
    GlobText,
    RangeQuery,
    check_limit,
    fleet_at,
    is_live,
    matches_node,
    parse_range,
    require_history,
    threaded_json_response,
)

_MAX_CELLS = 5_000_000


class StripsQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A time range; `filter` selects GPUs by their state at its end, `node` by name or id."""

    columns: Annotated[int, Meta(ge=1, le=2000)] = 240
    node: GlobText | UnsetType = UNSET
    filter: str | UnsetType = UNSET


async def strips(context: RequestContext) -> Response:
    """The state and the user of each GPU, column by column."""
    query: StripsQuery = context.query
    span = await parse_range(context, query)
    gpus = await _select_gpus(context, query)
    cells = len(gpus) * query.columns
    check_limit(cells, _MAX_CELLS, "cells", "request fewer columns or GPUs")
    runs = await require_history(context).strips(gpus, *span, query.columns)
    history_begins = await require_history(context).oldest_after(span.start)

    def build() -> Strips:
        rows = (Strip(gpu=gpu, runs=runs.get((gpu.node_id, gpu.uuid), ())) for gpu in gpus)
        return Strips(
            start=span.start,
            end=span.end,
            columns=query.columns,
            rows=tuple(rows),
            history_begins=history_begins,
        )

    return await threaded_json_response(context, build)


async def _select_gpus(context: RequestContext, query: StripsQuery) -> list[GpuOfNode]:
    """The GPUs that existed at the end of the range and match the query."""
    matching = await _matching_gpus(context, query)
    gpus = await require_history(context).gpus()
    return await run_in_query_thread(_matching, gpus, matching, query.node)


async def _matching_gpus(context: RequestContext, query: StripsQuery) -> Collection[GpuKey]:
    """The GPUs that match a filter, with their MIG instances."""
    if query.filter is UNSET and is_live(context, query.until):
        # All of the present: a view of a large fleet would take as long as its strips.
        return await run_in_query_thread(context.hub.fleet.device_keys)
    view = await fleet_at(context, query.until)
    return await run_in_query_thread(_filtered_keys, view, query.filter or "")


def _matching(
    gpus: Iterable[GpuOfNode], keys: Collection[GpuKey], node: str | UnsetType
) -> list[GpuOfNode]:
    return [
        gpu
        for gpu in gpus
        if (gpu.node_id, gpu.uuid) in keys and (node is UNSET or matches_node(gpu, node))
    ]


def _filtered_keys(view: FleetView, text: str) -> set[GpuKey]:
    gpu_filter = parse_filter(text)
    return {
        (node.node_id, uuid)
        for node in view.nodes
        for gpu in node.gpus
        if gpu_filter.matches(node, gpu)
        for uuid in (gpu.uuid, *[instance.uuid for instance in gpu.instances])
    }


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/history/strips",
        summary="The state and user of every GPU over time: a heat map",
        required_action="view",
        handler=strips,
        query=StripsQuery,
        response=Strips,
        extra_statuses=(404, 503),
    ),
)
