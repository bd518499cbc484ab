"""`GET /api/v1/stream`: what changes, as server-sent events."""

from collections.abc import AsyncIterator

from starlette.responses import Response, StreamingResponse

from fleet_smi.hub.stream import Subscriber
from fleet_smi.server.endpoint import Endpoint, RequestContext

_HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
    "Vary": "Authorization, Cookie, Accept-Encoding",
}


async def stream(context: RequestContext) -> Response:
    """Everything at first, then what changes; a `Last-Event-ID` goes on where it was cut."""
    gzip = context.accepts_gzip
    listener = context.hub.stream.subscribe(context.header("last-event-id") or None, gzip=gzip)
    headers = {**_HEADERS, "Content-Encoding": "gzip"} if gzip else _HEADERS
    return StreamingResponse(
        _events(context, listener), headers=headers, media_type="text/event-stream"
    )


async def _events(asked: RequestContext, listener: Subscriber) -> AsyncIterator[bytes]:
    try:
        while (part := await listener.next_chunk()) is not None and asked.is_still_authorized:
            yield part
    finally:
        listener.close()


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/stream",
        summary="The fleet and then its changes, as server-sent events",
        required_action="view",
        handler=stream,
        response=str,
        response_media_types=("text/event-stream",),
        extra_statuses=(503,),
    ),
)
