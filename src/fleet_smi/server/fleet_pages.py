"""Pages of the fleet: some nodes at a time, so that no response blocks the event loop.

A page is of one moment, the next one of a later moment. The cursor names the last node of a page:
the next one begins after its place, whether or not that node still exists.
"""

import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response, StreamingResponse

from fleet_smi.errors import UsageError
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.fleet import NodeView, Summary
from fleet_smi.model.node_names import NodePlace, node_place
from fleet_smi.model.view_options import ViewOptions
from fleet_smi.model.views import NodeParts, split_node_view
from fleet_smi.server.endpoint import RequestContext
from fleet_smi.server.history_requests import fleet_at, is_live
from fleet_smi.server.single_flight import iterate_cooperatively
from fleet_smi.wire.json import to_json

MAX_PAGE_NODES = 1000
MAX_CACHED_NODES = 1000
"""A larger fleet is sent as it is encoded: its body is too large to be kept in memory."""
# A page also ends after this many bytes: nodes with many processes must not make a huge one.
_MAX_PAGE_BYTES = 8 << 20
_STREAM_PAGE_NODES = 200
_GZIP = zlib.MAX_WBITS | 16
_Cursor = tuple[str, str]


class EncodedPage(Struct, frozen=True, kw_only=True):
    """A page whose nodes are encoded already, separated by commas."""

    taken_at: float
    summary: Summary | None
    nodes: bytes
    next: str | None

    def to_json(self) -> bytes:
        """The page as JSON."""
        nodes = msgspec.Raw(b"[" + self.nodes + b"]")
        head = {"taken_at": self.taken_at, "summary": self.summary}
        return to_json({**head, "nodes": nodes, "next": self.next})


async def encode_page(
    context: RequestContext,
    options: ViewOptions,
    limit: int,
    after: str | UnsetType = UNSET,
    at: str | UnsetType = UNSET,
) -> EncodedPage:
    """Encode the next nodes that the options select, after a cursor or from the start."""
    place = None if after is UNSET else _decode_cursor(after)
    taken_at, summary, nodes = await _source(context, place, at)
    encoded, size, last = list[bytes](), 0, None
    async for parts in iterate_cooperatively(nodes, context.services.backpressure):
        selected = options.select(parts)
        if selected is None:
            continue
        if last is not None and (len(encoded) >= limit or size >= _MAX_PAGE_BYTES):
            break  # there is at least this one more
        encoded.append(to_json(context.masked_view(selected)))
        size, last = size + len(encoded[-1]), (parts.node.name, parts.node.node_id)
    else:
        last = None
    cursor = None if last is None else _encode_cursor(last)
    return EncodedPage(taken_at=taken_at, summary=summary, nodes=b",".join(encoded), next=cursor)


async def _source(
    context: RequestContext, place: NodePlace | None, at: str | UnsetType
) -> tuple[float, Summary | None, Iterable[NodeParts]]:
    """The time, the summary for a first page, and the nodes after a place."""
    if at is UNSET or is_live(context, at):
        if place is None:
            # All nodes have to be looked at for the summary: then the page is made of these.
            fleet = await context.fleet_parts()
            return fleet.taken_at, fleet.summary, fleet.nodes
        now = context.hub.clock()
        return now, None, context.hub.shown.parts(now, place)
    view = await fleet_at(context, at)
    nodes = [node for node in view.nodes if place is None or _place(node) > place]
    summary = view.summary if place is None else None
    return view.taken_at, summary, map(split_node_view, nodes)


def streamed_response(
    context: RequestContext, options: ViewOptions, more: Mapping[str, Any] | None = None
) -> Response:
    """A response with the live fleet, sent as it is encoded; `more` are fields after the nodes."""
    headers = {"Cache-Control": "no-cache", "Vary": "Authorization, Cookie, Accept-Encoding"}
    body = _stream_json(context, options, more or {})
    if context.accepts_gzip:
        headers["Content-Encoding"] = "gzip"
        body = _compress(body)
    return StreamingResponse(body, headers=headers, media_type="application/json")


async def _stream_json(
    context: RequestContext, options: ViewOptions, more: Mapping[str, Any]
) -> AsyncIterator[bytes]:
    """Yield the JSON of the whole fleet page by page; pages are shared by concurrent requests."""
    page = await _shared_page(context, options, UNSET)
    head = to_json({"taken_at": page.taken_at, "summary": page.summary})
    yield head.removesuffix(b"}") + b',"nodes":[' + page.nodes
    while page.next is not None:
        page = await _shared_page(context, options, page.next)
        yield b"," + page.nodes
    yield b"]," + to_json(more).removeprefix(b"{") if more else b"]}"


async def _compress(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    compressor = zlib.compressobj(1, zlib.DEFLATED, _GZIP)
    async for chunk in chunks:
        yield await run_in_query_thread(compressor.compress, chunk)
    yield compressor.flush()


async def _shared_page(
    context: RequestContext, options: ViewOptions, after: str | UnsetType
) -> EncodedPage:
    key = "page", context.query, context.command_visibility, after

    async def encode() -> EncodedPage:
        return await encode_page(context, options, _STREAM_PAGE_NODES, after)

    return await context.services.cache.get_or_compute(key, encode)


def _place(node: NodeView) -> NodePlace:
    return node_place(node.name, node.node_id)


def _encode_cursor(node: _Cursor) -> str:
    return urlsafe_b64encode(msgspec.json.encode(node)).decode().rstrip("=")


def _decode_cursor(text: str) -> NodePlace:
    try:
        padded = text + "=" * (-len(text) % 4)
        name, node_id = msgspec.json.decode(urlsafe_b64decode(padded), type=_Cursor)
    except (ValueError, RecursionError):
        raise UsageError("after: give the `next` of the page before, as it is") from None
    return node_place(name, node_id)
