"""`GET /gpustat.txt`, `.ansi` and `.html`: the fleet as gpustat-web shows it.

Its page that is drawn anew over a WebSocket is not here: the front page and the stream are.
"""

import asyncio
import re
from html import escape
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.compat.gpustat.codec import GpustatOptions
from fleet_smi.compat.gpustat.table import render
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.server.endpoint import Endpoint, RequestContext

_SHOWN = GpustatOptions(command=True, user=True, pid=True, power="limit")
_MOST_NAMES = 4096
_CODES = re.compile(r"\x1b\[([0-9;]*)m")
_CLASSES = {
    "1": "strong",
    "2": "faint",
    "31": "red",
    "32": "green",
    "33": "yellow",
    "34": "blue",
    "35": "magenta",
    "36": "cyan",
}
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>gpustat · fleet-smi</title>
<meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="5">
<link rel="stylesheet" href="gpustat.css"></head>
<body><pre>{text}</pre></body>
</html>
"""
_STYLE = """:root { color-scheme: light dark; }
pre { font: 13px/1.4 ui-monospace, monospace; }
.strong { font-weight: bold; }
.faint { opacity: 0.7; }
.red { color: light-dark(#b3261e, #ff8a80); }
.green { color: light-dark(#1b6e20, #81c995); }
.yellow { color: light-dark(#7a5900, #fdd663); }
.blue { color: light-dark(#1a56b0, #8ab4f8); }
.magenta { color: light-dark(#8e24aa, #d7aefb); }
.cyan { color: light-dark(#00696d, #78d9ec); }
"""

NodeNames = Annotated[str, Meta(max_length=_MOST_NAMES)] | UnsetType


class PageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`nodes` are names with commas between them; without, it is every node.

    `full=0` leaves the frame of the page away, for a page that has one; text has none.
    """

    nodes: NodeNames = UNSET
    full: Literal["0", "1"] = "1"


class TextQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`color` alone is enough to have colours."""

    color: Literal["", "1", "true", "0", "false"] = "false"


async def plain_text(context: RequestContext) -> Response:
    """The text, in colour if so asked."""
    text = await _text(context, colour=context.query.color in ("", "1", "true"))
    return Response(text, media_type="text/plain")


async def ansi_text(context: RequestContext) -> Response:
    """The text in the colours of a terminal."""
    return Response(await _text(context, colour=True), media_type="text/ansi")


async def html_page(context: RequestContext) -> Response:
    """The same as a page."""
    text = _marked(await _text(context, colour=True))
    shown = _PAGE.format(text=text) if context.query.full == "1" else text
    return Response(shown, media_type="text/html")


async def stylesheet(_: RequestContext) -> Response:
    """The colours of that page: what it may load is from this hub alone."""
    return Response(_STYLE, media_type="text/css")


async def _text(asked: RequestContext, *, colour: bool) -> str:
    query: PageQuery = asked.query
    view, unknown = await asked.fleet_view(), ""
    if query.nodes is not UNSET:
        names = [name for name in query.nodes.split(",") if name]
        view, unknown = _only(view, names)
    # Thousands of GPUs take a moment to write down: not on the event loop.
    return await asyncio.to_thread(render, view, replace(_SHOWN, colour=colour)) + unknown


def _only(view: FleetView, names: list[str]) -> tuple[FleetView, str]:
    """The nodes of these names, and a line for each name that is nobody's."""
    nodes = tuple(node for node in view.nodes if node.name in names or node.node_id in names)
    known = {name for node in nodes for name in (node.name, node.node_id)}
    unknown = [sanitize_text(name, 128).replace(" ", "_") for name in names if name not in known]
    return replace(view, nodes=nodes), "".join(f"({name}) is not known here\n" for name in unknown)


def _marked(text: str) -> str:
    """Text in the colours of a terminal as text in those of a page; all else is escaped."""
    first, *rest = _CODES.split(escape(text))
    parts, within = [first], 0
    for code, words in zip(rest[::2], rest[1::2], strict=True):
        if code in _CLASSES:
            parts.append(f'<span class="{_CLASSES[code]}">')
            within += 1
        elif code.startswith("0"):
            parts.append("</span>" * within)
            within = 0
        parts.append(words)
    return "".join(parts)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/gpustat.txt",
        summary="The fleet as `gpustat` prints it",
        required_action="view",
        handler=plain_text,
        query=TextQuery,
        response=str,
        response_media_types=("text/plain",),
    ),
    Endpoint(
        method="GET",
        path="/gpustat.ansi",
        summary="The same in the colours of a terminal",
        required_action="view",
        handler=ansi_text,
        query=PageQuery,
        response=str,
        response_media_types=("text/ansi",),
    ),
    Endpoint(
        method="GET",
        path="/gpustat.html",
        summary="The same as a page",
        required_action="view",
        handler=html_page,
        query=PageQuery,
        response=str,
        response_media_types=("text/html",),
    ),
    Endpoint(
        method="GET",
        path="/gpustat.css",
        summary="The colours of that page",
        required_action="view",
        handler=stylesheet,
        response=str,
        response_media_types=("text/css",),
    ),
)
