"""Large answers: encoded and compressed once for all who ask the same and may see the same."""

import asyncio
import re
import zlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.responses import Response

from fleet_smi.server.endpoint import Asked

_WORTH_PACKING_BYTES = 2048
_GZIP = zlib.MAX_WBITS | 16


class Packed(NamedTuple):
    """A body as it is kept: compressed where that is worth it."""

    body: bytes
    gzip: bool


class _Version(NamedTuple):
    """An answer, and what its version is called."""

    tag: str
    packed: Packed


async def shared_answer(asked: Asked, encode: Callable[[], Awaitable[bytes]]) -> Response:
    """What was asked for of the fleet as JSON, unless the asker has this very version already."""

    async def make() -> _Version:
        tag = _tag(asked)
        return _Version(tag, await pack(await encode()))

    known = re.split(r"\s*,\s*", asked.header("if-none-match"))
    tag = _tag(asked)
    if tag not in known:
        key = asked.request.url.path, asked.query, asked.commands
        tag, packed = await asked.services.shared.once(key, make)
    headers = {"ETag": tag, "Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
    if tag in known:
        return Response(status_code=304, headers=headers)
    return await unpacked(asked, packed, headers)


async def pack(body: bytes) -> Packed:
    """A large body compressed; never on the event loop."""
    if len(body) < _WORTH_PACKING_BYTES:
        return Packed(body, gzip=False)
    return Packed(await asyncio.to_thread(zlib.compress, body, 1, _GZIP), gzip=True)


async def unpacked(asked: Asked, packed: Packed, headers: dict[str, str]) -> Response:
    """The body as JSON; unpacked for the few who do not take it compressed."""
    headers["Vary"] += ", Accept-Encoding"
    body, gzip = packed
    if gzip and not asked.takes_gzip:
        body, gzip = await asyncio.to_thread(zlib.decompress, body, _GZIP), False
    if gzip:
        headers["Content-Encoding"] = "gzip"
    return Response(body, headers=headers, media_type="application/json")


def _tag(asked: Asked) -> str:
    return f'W/"{asked.hub.life}-{asked.hub.version}-{asked.commands}"'
