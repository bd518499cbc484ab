"""`GET /metrics`: the fleet for Prometheus."""

import asyncio

from starlette.responses import Response

from fleet_smi.server.endpoint import Asked, Endpoint
from fleet_smi.wire.prometheus import CONTENT_TYPE, metrics


async def exposition(asked: Asked) -> Response:
    """One series a GPU and figure; no pid and no command among the labels."""
    # Thousands of GPUs take a moment to write down: not on the event loop.
    body = await asyncio.to_thread(metrics, await asked.fleet(), asked.hub.counts())
    return Response(body, media_type=CONTENT_TYPE)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/metrics",
        summary="The fleet for Prometheus",
        may="view",
        handle=exposition,
        answer=str,
        answers_with=("text/plain",),
    ),
)
