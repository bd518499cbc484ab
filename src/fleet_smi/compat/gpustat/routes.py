"""HTTP routes `GET /gpustat.txt`, `.ansi` and `.html`: the fleet as gpustat-web shows it.

gpustat-web's WebSocket is not offered: the hub's own page and stream take its place.
"""

import re
from html import escape
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace
from starlette.responses import Response

from fleet_smi.compat.gpustat.codec import GpustatOptions
from fleet_smi.compat.gpustat.table import render
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.server.endpoint import Endpoint, RequestContext

_OPTIONS = GpustatOptions(command=True, user=True, pid=True, power="limit")
_MAX_NAMES_LENGTH = 4096
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

NodeNames = Annotated[str, Meta(max_length=_MAX_NAMES_LENGTH)] | UnsetType


class PageQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`nodes` is a comma-separated list of names, by default every node.

    `full=0` returns the content without the HTML page around it, for embedding.
    """

    nodes: NodeNames = UNSET
    full: Literal["0", "1"] = "1"


class TextQuery(PageQuery, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`color` without a value turns colours on."""

    color: Literal["", "1", "true", "0", "false"] = "false"


async def plain_text(context: RequestContext) -> Response:
    """Return the text, in colour if requested."""
    text = await _text(context, colour=context.query.color in ("", "1", "true"))
    return Response(text, media_type="text/plain")


async def ansi_text(context: RequestContext) -> Response:
    """Return the text with terminal colours."""
    return Response(await _text(context, colour=True), media_type="text/ansi")


async def html_page(context: RequestContext) -> Response:
    """Return the text as a page."""
    text = _to_html(await _text(context, colour=True))
    page = _PAGE.format(text=text) if context.query.full == "1" else text
    return Response(page, media_type="text/html")


async def stylesheet(_: RequestContext) -> Response:
    """Return the style sheet: the content security policy allows none inside the page."""
    return Response(_STYLE, media_type="text/css")


async def _text(context: RequestContext, *, colour: bool) -> str:
    query: PageQuery = context.query
    view, unknown = await context.fleet_view(), ""
    if query.nodes is not UNSET:
        names = [name for name in query.nodes.split(",") if name]
        view, unknown = _select(view, names)
    # In a thread: thousands of GPUs would block the event loop.
    return await run_in_query_thread(render, view, replace(_OPTIONS, colour=colour)) + unknown


def _select(view: FleetView, names: list[str]) -> tuple[FleetView, str]:
    """Return the nodes of these names, and an error line for each unknown name."""
    nodes = tuple(node for node in view.nodes if node.name in names or node.node_id in names)
    known = {name for node in nodes for name in (node.name, node.node_id)}
    unknown = [sanitize_text(name, 128).replace(" ", "_") for name in names if name not in known]
    return replace(view, nodes=nodes), "".join(f"({name}) is not known here\n" for name in unknown)


def _to_html(text: str) -> str:
    """Convert terminal colours to spans; everything else is escaped."""
    # Escaping first is safe: colour codes have no character that it changes.
    first, *rest = _CODES.split(escape(text))
    parts, open_spans = [first], 0
    for code, content in zip(rest[::2], rest[1::2], strict=True):
        # A reset ends every colour, so all spans that are open; unknown codes are dropped.
        if code in _CLASSES:
            parts.append(f'<span class="{_CLASSES[code]}">')
            open_spans += 1
        elif code.startswith("0"):
            parts.append("</span>" * open_spans)
            open_spans = 0
        parts.append(content)
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
        summary="The same with terminal colours",
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
        summary="The style sheet of that page",
        required_action="view",
        handler=stylesheet,
        response=str,
        response_media_types=("text/css",),
    ),
)
