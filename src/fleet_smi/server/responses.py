"""Large answers: encoded and compressed once for all who ask the same and may see the same."""

import asyncio
import re
import zlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.responses import Response

from fleet_smi.server.endpoint import RequestContext

_WORTH_PACKING_BYTES = 2048
_GZIP = zlib.MAX_WBITS | 16


class EncodedBody(NamedTuple):
    """A body as it is kept: compressed where that is worth it."""

    body: bytes
    gzip: bool


class _Version(NamedTuple):
    """An answer, and what its version is called."""

    tag: str
    packed: EncodedBody


async def cached_json_response(
    context: RequestContext, encode: Callable[[], Awaitable[bytes]]
) -> Response:
    """What was asked for of the fleet as JSON, unless the asker has this very version already."""

    async def make() -> _Version:
        tag = _tag(context)
        return _Version(tag, await compress_body(await encode()))

    known = re.split(r"\s*,\s*", context.header("if-none-match"))
    tag = _tag(context)
    if tag not in known:
        key = context.request.url.path, context.query, context.command_visibility
        tag, packed = await context.services.cache.get_or_compute(key, make)
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
    if tag in known:
        return Response(status_code=304, headers=headers)
    return await encoded_json_response(context, packed, headers)


async def compress_body(body: bytes) -> EncodedBody:
    """A large body compressed; never on the event loop."""
    if len(body) < _WORTH_PACKING_BYTES:
        return EncodedBody(body, gzip=False)
    return EncodedBody(await asyncio.to_thread(zlib.compress, body, 1, _GZIP), gzip=True)


async def encoded_json_response(
    context: RequestContext, encoded: EncodedBody, headers: dict[str, str]
) -> Response:
    """The body as JSON; unpacked for the few who do not take it compressed."""
    headers["Vary"] += ", Accept-Encoding"
    body, gzip = encoded
    if gzip and not context.accepts_gzip:
        body, gzip = await asyncio.to_thread(zlib.decompress, body, _GZIP), False
    if gzip:
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers, media_type="application/json")


def _tag(asked: RequestContext) -> str:
    return f'W/"{asked.hub.instance_id}-{asked.hub.version}-{asked.command_visibility}"'
