"""`GET /api/v1/stream`: what changes, as server-sent events."""

from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from fleet_smi.hub.stream import Listener
from fleet_smi.server.endpoint import Asked, Endpoint

_HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "Vary": "Authorization, Cookie, Accept-Encoding",
}


async def stream(asked: Asked) -> Response:
    """Everything at first, then what changes; a `Last-Event-ID` goes on where it was cut."""
    gzip = asked.takes_gzip
    listener = asked.hub.stream.listen(asked.header("last-event-id") or None, gzip=gzip)
    headers = {**_HEADERS, "Content-Encoding": "gzip"} if gzip else _HEADERS
    return StreamingResponse(
        _events(asked, listener), headers=headers, media_type="text/event-stream"
    )


async def _events(asked: Asked, listener: Listener) -> AsyncIterator[bytes]:
    try:
        while (part := await listener.next()) is not None and asked.may_still:
            yield part
    finally:
        listener.close()


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/stream",
        summary="The fleet and then its changes, as server-sent events",
        may="view",
        handle=stream,
        answer=str,
        answers_with=("text/event-stream",),
        also=(503,),
    ),
)
