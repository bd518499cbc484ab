"""`/api/v1/stream`: the fleet and its changes as server-sent events, or one event at a moment."""

from collections.abc import AsyncIterator, Mapping
from functools import partial

from msgspec import UNSET, Struct, UnsetType
from starlette.responses import Response, StreamingResponse

from fleet_smi.config.ip_addresses import rate_limit_key
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.hub.stream import Subscriber
from fleet_smi.model.fleet import FleetView
from fleet_smi.model.stream_payload_builder import fleet_payload
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.history_requests import MomentText, fleet_at
from fleet_smi.server.response_cache import cached_json_response
from fleet_smi.wire.event import Event, StreamUpdate, encode_event_data

_HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # nginx would hold back events until its buffer is full
    "Vary": "Authorization, Cookie, Accept-Encoding",
}


class SnapshotQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`at` is a moment like `yesterday 03:12`, `-2h` or seconds since 1970; the default is now."""

    at: MomentText | UnsetType = UNSET


class StreamQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`sites=false` leaves out the nodes of sites: for a hub that shows the nodes of this one."""

    sites: bool = True


async def stream(context: RequestContext) -> Response:
    """The whole fleet first, then its changes; `Last-Event-ID` resumes an interrupted stream."""
    gzip = context.accepts_gzip
    headers, access = context.request.scope["headers"], context.services.access
    shown = context.hub.stream
    subscriber = (shown if context.query.sites else shown.own).subscribe(
        context.header("last-event-id") or None,
        gzip=gzip,
        client=rate_limit_key(access.client_address(headers, context.peer)),
    )
    sent = {**_HEADERS, "Content-Encoding": "gzip"} if gzip else _HEADERS
    return StreamingResponse(
        _events(context, subscriber), headers=sent, media_type="text/event-stream"
    )


async def snapshot(context: RequestContext) -> Response:
    """Respond with the data of a `fleet` event, as of now or of a past moment."""
    return await cached_json_response(context, partial(_encoded, context))


async def _encoded(context: RequestContext) -> bytes:
    view = await fleet_at(context, context.query.at)
    # A copy, because the event loop may add numbers while the thread encodes.
    return await run_in_query_thread(_encode, view, dict(context.hub.stream.numbers))


def _encode(view: FleetView, numbers: Mapping[str, int]) -> bytes:
    fleet = fleet_payload(view, numbers)
    nodes, figures = tuple(fleet.nodes.values()), tuple(fleet.figures.values())
    update = StreamUpdate(summary=fleet.summary, nodes=nodes, figures=figures)
    return encode_event_data(fleet.taken_at, update)


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
        query=StreamQuery,
        response=str,
        response_media_types=("text/event-stream",),
        extra_statuses=(503,),
    ),
    Endpoint(
        method="GET",
        path="/api/v1/stream/snapshot",
        summary="The whole fleet, now or at a past moment, as the stream's first event has it",
        required_action="view",
        handler=snapshot,
        query=SnapshotQuery,
        response=Event,
        extra_statuses=(304, 404, 503),
    ),
)
