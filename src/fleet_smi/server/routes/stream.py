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
    """The whole fleet first, then its changes; `Last-Event-ID` resumes an interrupted stream."""
    gzip = context.accepts_gzip
    subscriber = context.hub.stream.subscribe(context.header("last-event-id") or None, gzip=gzip)
    headers = {**_HEADERS, "Content-Encoding": "gzip"} if gzip else _HEADERS
    return StreamingResponse(
        _events(context, subscriber), headers=headers, media_type="text/event-stream"
    )


async def _events(context: RequestContext, subscriber: Subscriber) -> AsyncIterator[bytes]:
    try:
        # Checked before each chunk: a revoked token or a logout ends the stream.
        while (chunk := await subscriber.next_chunk()) is not None and context.is_still_authorized:
            yield chunk
    finally:
        subscriber.close()


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
