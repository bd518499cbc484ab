"""`GET /metrics`: the fleet in the exposition format of Prometheus."""

import asyncio

from starlette.responses import Response

from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.wire.prometheus import CONTENT_TYPE, encode_metrics


async def exposition(context: RequestContext) -> Response:
    """One series per GPU and metric; labels have neither pids nor commands."""
    # Thousands of GPUs take a moment to encode: not on the event loop.
    body = await asyncio.to_thread(encode_metrics, await context.fleet_view(), context.hub.counts())
    return Response(body, media_type=CONTENT_TYPE)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/metrics",
        summary="The fleet for Prometheus",
        required_action="view",
        handler=exposition,
        response=str,
        response_media_types=("text/plain",),
    ),
)
