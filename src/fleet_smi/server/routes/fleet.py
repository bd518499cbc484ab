"""`GET /api/v1/fleet`: all that is believed now, or the part that is asked for."""

import fnmatch
import re
from functools import partial
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.model.arrange import Arrangement, parse_states
from fleet_smi.model.filter import parse
from fleet_smi.model.fleet import FleetView
from fleet_smi.server.answers import shared_answer
from fleet_smi.server.endpoint import Asked, Endpoint, given
from fleet_smi.server.past import MomentText, fleet_then
from fleet_smi.server.shared import in_turns
from fleet_smi.wire.listing import fleet_of_nodes_json, to_json

_MOST_PATTERN = 128
Sort = Literal["index", "attention", "state", "util", "memory", "temperature", "power", "user"]


class FleetQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`state` is a list like `free,held`; `node` a pattern of names like `gpu0*`.

    `filter` is a text like `free model:A100 mem>40G`. `at` is a moment of the past, like
    `yesterday 03:12`, `-2h` or seconds since 1970.
    """

    user: str | UnsetType = UNSET
    node: Annotated[str, Meta(max_length=_MOST_PATTERN)] | UnsetType = UNSET
    state: str | UnsetType = UNSET
    filter: str | UnsetType = UNSET
    sort: Sort = "index"
    at: MomentText | UnsetType = UNSET


async def fleet(asked: Asked) -> Response:
    """The fleet, unless the asker has this very version of it already."""
    shown = arrangement(asked.query)
    return await shared_answer(asked, partial(_encoded, asked, shown))


async def _encoded(asked: Asked, shown: Arrangement) -> bytes:
    view = await fleet_then(asked, asked.query.at)
    nodes = [to_json(node) async for node in in_turns(shown.nodes(view.nodes))]
    return fleet_of_nodes_json(view.taken_at, view.summary, nodes)


def arrangement(query: FleetQuery) -> Arrangement:
    """The filters of a query; what makes no sense is a `UsageError`."""
    return Arrangement(
        user=given(query.user),
        node=None if query.node is UNSET else _pattern(query.node),
        states=None if query.state is UNSET else parse_states(query.state),
        filter=None if query.filter is UNSET else parse(query.filter),
        sort=query.sort,
    )


def _pattern(glob: str) -> re.Pattern[str]:
    # Never a regular expression of the asker's: some take for ever.
    return re.compile(fnmatch.translate(glob))


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/fleet",
        summary="The fleet: every node, its GPUs, the verdict on each",
        may="view",
        handle=fleet,
        query=FleetQuery,
        answer=FleetView,
        also=(304, 404, 503),
    ),
)
