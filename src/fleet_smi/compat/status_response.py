"""HTTP response in the JSON of an older system, encoded off the event loop."""

from collections.abc import Callable
from typing import TypeVar

from starlette.responses import Response

from fleet_smi.hub.query_threads import run_in_query_thread

_T = TypeVar("_T")


async def encode_response(encode: Callable[[_T], bytes], value: _T) -> Response:
    """Return a JSON response with `encode(value)` as its body.

    Encoded in a thread: thousands of nodes would block the event loop for too long.
    """
    return Response(await run_in_query_thread(encode, value), media_type="application/json")
