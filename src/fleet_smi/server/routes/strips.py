"""`GET /api/v1/history/strips`: rows are GPUs, columns are time."""

from collections.abc import Collection
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from fleet_smi.hub.history.rows import Place
from fleet_smi.model.filter import parse
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.history import GpuOfNode, Strip, Strips
from fleet_smi.server.endpoint import Asked, Endpoint
from fleet_smi.server.past import (
    Pattern,
    RangeQuery,
    fleet_then,
    is_named,
    past_of,
    range_of,
    told,
    within,
)

_MOST_CELLS = 5_000_000


class StripsQuery(RangeQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`filter` chooses GPUs by how they stood at the end, `node` by name or id."""

    columns: Annotated[int, Meta(ge=1, le=2000)] = 240
    node: Pattern | UnsetType = UNSET
    filter: str | UnsetType = UNSET


async def strips(asked: Asked) -> Response:
    """What each GPU was, and whose, column by column."""
    query: StripsQuery = asked.query
    span = await range_of(asked, query)
    gpus = await _chosen(asked, query)
    within(len(gpus) * query.columns, _MOST_CELLS, "cells", "ask for fewer columns or GPUs")
    drawn = await past_of(asked).strips(gpus, *span, query.columns)

    def answer() -> Strips:
        rows = (Strip(gpu=gpu, runs=drawn.get((gpu.node_id, gpu.uuid), ())) for gpu in gpus)
        return Strips(start=span.start, end=span.end, columns=query.columns, rows=tuple(rows))

    return await told(asked, answer)


async def _chosen(asked: Asked, query: StripsQuery) -> list[GpuOfNode]:
    """The GPUs that were known at the end of the range, as far as they are asked for."""
    view = await fleet_then(asked, query.until)
    passing = _passing(view, "" if query.filter is UNSET else query.filter)
    return [
        gpu
        for gpu in await past_of(asked).gpus()
        if (gpu.node_id, gpu.uuid) in passing and (query.node is UNSET or is_named(gpu, query.node))
    ]


def _passing(view: FleetView, text: str) -> Collection[Place]:
    """The GPUs that pass a filter, and their instances with them."""
    chosen = parse(text)
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
        may="view",
        handle=strips,
        query=StripsQuery,
        answer=Strips,
        also=(404, 503),
    ),
)
