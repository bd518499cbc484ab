"""`GET /api/v1/fleet`: the whole fleet or the part that filters select, now or at a moment."""

import fnmatch
import re
from functools import partial
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.model.filter import parse_filter
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.view_options import ViewOptions, parse_states
from fleet_smi.server.endpoint import Endpoint, RequestContext, unset_to_none
from fleet_smi.server.history_requests import MomentText, fleet_at
from fleet_smi.server.response_cache import cached_json_response
from fleet_smi.server.single_flight import iterate_cooperatively
from fleet_smi.wire.json import fleet_json_from_encoded, to_json

_MAX_PATTERN_LENGTH = 128
Sort = Literal["index", "attention", "state", "util", "memory", "temperature", "power", "user"]


class FleetQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`state` is a list like `free,held`; `node` a pattern of names like `gpu0*`.

    `filter` is a text like `free model:A100 mem>40G`. `at` is a moment of the past, like
    `yesterday 03:12`, `-2h` or seconds since 1970.
    """

    user: str | UnsetType = UNSET
    node: Annotated[str, Meta(max_length=_MAX_PATTERN_LENGTH)] | UnsetType = UNSET
    state: str | UnsetType = UNSET
    filter: str | UnsetType = UNSET
    sort: Sort = "index"
    at: MomentText | UnsetType = UNSET


async def fleet(context: RequestContext) -> Response:
    """The fleet as JSON, or 304 if the client has this version already."""
    options = view_options_from_query(context.query)
    return await cached_json_response(context, partial(_encode, context, options))


async def _encode(context: RequestContext, options: ViewOptions) -> bytes:
    view = await fleet_at(context, context.query.at)
    nodes = [
        to_json(node)
        async for node in iterate_cooperatively(
            options.apply_to_nodes(view.nodes), context.services.backpressure
        )
    ]
    return fleet_json_from_encoded(view.taken_at, view.summary, nodes)


def view_options_from_query(query: FleetQuery) -> ViewOptions:
    """The filters and the order of a query; raise `UsageError` where they are invalid."""
    return ViewOptions(
        user=unset_to_none(query.user),
        node=None if query.node is UNSET else _pattern(query.node),
        states=None if query.state is UNSET else parse_states(query.state),
        filter=None if query.filter is UNSET else parse_filter(query.filter),
        sort=query.sort,
    )


def _pattern(glob: str) -> re.Pattern[str]:
    # A glob, never a regular expression of the client's: some take forever to match.
    return re.compile(fnmatch.translate(glob))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/fleet",
        summary="The fleet: every node, its GPUs, the verdict on each",
        required_action="view",
        handler=fleet,
        query=FleetQuery,
        response=FleetView,
        extra_statuses=(304, 404, 503),
    ),
)
