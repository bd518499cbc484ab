"""HTTP response in the JSON of an older system, encoded off the event loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.responses import Response

_T = TypeVar("_T")


async def encode_response(encode: Callable[[_T], bytes], value: _T) -> Response:
    """Return a JSON response with `encode(value)` as its body.

    Encoded in a thread: thousands of nodes would block the event loop for too long.
    """
    return Response(await asyncio.to_thread(encode, value), media_type="application/json")
