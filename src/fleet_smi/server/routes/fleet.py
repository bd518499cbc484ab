"""`GET /api/v1/fleet`: all that is believed now, or the part that is asked for."""

import asyncio
import fnmatch
import re
import zlib
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from starlette.responses import Response

from fleet_smi.model.arrange import Arrangement, parse_states
from fleet_smi.model.filter import parse
from fleet_smi.model.fleet import FleetView
from fleet_smi.server.endpoint import Asked, Endpoint, given
from fleet_smi.wire.listing import fleet_json

_WORTH_PACKING_BYTES = 2048
_MOST_PATTERN = 128
Sort = Literal["index", "attention", "state", "util", "memory", "temperature", "power", "user"]


class FleetQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`state` is a list like `free,held`; `node` a pattern of names like `gpu0*`.

    `filter` is a text like `free model:A100 mem>40G`.
    """

    user: str | UnsetType = UNSET
    node: Annotated[str, Meta(max_length=_MOST_PATTERN)] | UnsetType = UNSET
    state: str | UnsetType = UNSET
    filter: str | UnsetType = UNSET
    sort: Sort = "index"


async def fleet(asked: Asked) -> Response:
    """The fleet, unless the asker has this very version of it already."""
    tag = f'W/"{asked.hub.life}-{asked.hub.version}-{asked.commands}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
    if tag in re.split(r"\s*,\s*", asked.header("if-none-match")):
        return Response(status_code=304, headers=headers)
    query: FleetQuery = asked.query
    view = asked.fleet()
    if query != FleetQuery():
        view = arrangement(query).apply(view)
    body = fleet_json(view)
    return await packed(asked, body, headers)


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


async def packed(asked: Asked, body: bytes, headers: dict[str, str]) -> Response:
    """A large body compressed, for those who take it; never on the event loop."""
    headers["Vary"] += ", Accept-Encoding"
    if len(body) >= _WORTH_PACKING_BYTES and asked.takes_gzip:
        body = await asyncio.to_thread(zlib.compress, body, 1, zlib.MAX_WBITS | 16)
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers, media_type="application/json")


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/fleet",
        summary="The fleet: every node, its GPUs, the verdict on each",
        may="view",
        handle=fleet,
        query=FleetQuery,
        answer=FleetView,
        also=(304,),
    ),
)
