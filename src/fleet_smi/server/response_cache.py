"""Cached JSON responses: encoded and compressed once per query, with ETag and gzip.

The cache that holds them is `single_flight.SingleFlightCache`.
"""

import re
import zlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from msgspec import UNSET
from starlette.responses import Response

from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.moment import parse_moment
from fleet_smi.server.endpoint import RequestContext

_MIN_GZIP_BYTES = 2048
_GZIP = zlib.MAX_WBITS | 16


class EncodedBody(NamedTuple):
    """A body as it is cached, compressed if it is large."""

    body: bytes
    gzip: bool


class _TaggedBody(NamedTuple):
    """A body and the ETag of the version it was made from."""

    tag: str
    body: EncodedBody


async def cached_json_response(
    context: RequestContext, encode: Callable[[], Awaitable[bytes]], person: str | None = None
) -> Response:
    """A JSON response of the fleet shared by equal requests; 304 if the client has this version.

    `person` is for whom it is made, where it differs from person to person.
    """

    async def encode_tagged() -> _TaggedBody:
        # Before encoding: a body may be newer than its tag, never older.
        tag = _etag(context, person)
        return _TaggedBody(tag, await compress_body(await encode()))

    # A client that has this version costs nothing: no body is computed or even looked up.
    client_tags = re.split(r"\s*,\s*", context.header("if-none-match"))
    tag = _etag(context, person)
    if tag not in client_tags:
        # By what the sender may see as well: an admin's body must not reach a viewer.
        scope = context.command_visibility, _moment(context), person
        key = context.request.url.path, context.query, scope
        tag, body = await context.services.cache.get_or_compute(key, encode_tagged)
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
    if tag in client_tags:
        return Response(status_code=304, headers=headers)
    return await encoded_json_response(context, body, headers)


async def compress_body(body: bytes) -> EncodedBody:
    """Compress a body if it is large, in a thread: it takes too long for the event loop."""
    if len(body) < _MIN_GZIP_BYTES:
        return EncodedBody(body, gzip=False)
    return EncodedBody(await run_in_query_thread(zlib.compress, body, 1, _GZIP), gzip=True)


async def encoded_json_response(
    context: RequestContext, encoded: EncodedBody, headers: dict[str, str]
) -> Response:
    """A JSON response, decompressed for the few clients that do not accept gzip."""
    return await encoded_response(context, encoded, headers, media_type="application/json")


async def encoded_response(
    context: RequestContext, encoded: EncodedBody, headers: dict[str, str], *, media_type: str
) -> Response:
    """A response, decompressed for the few clients that do not accept gzip."""
    headers["Vary"] += ", Accept-Encoding"
    body, gzip = encoded
    if gzip and not context.accepts_gzip:
        body, gzip = await run_in_query_thread(zlib.decompress, body, _GZIP), False
    if gzip:
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers, media_type=media_type)


def _etag(context: RequestContext, person: str | None) -> str:
    # Weak: the gzipped and the plain body have the same tag, and a body may be newer than it.
    version = f"{context.hub.instance_id}-{context.hub.version}{_moment(context)}"
    # A name may have characters that a header cannot: only whether it is for one person.
    own = "" if person is None else f"-{zlib.crc32(person.encode()):x}"
    return f'W/"{version}-{context.command_visibility}{own}"'


def _moment(context: RequestContext) -> str:
    """The second of the past that a query is about: "-2h" is another one in every second."""
    at = getattr(context.query, "at", UNSET)
    return "" if at is UNSET else f"@{parse_moment(at, context.hub.clock()):.0f}"
