"""`GET /metrics`: the fleet in the exposition format of Prometheus."""

from typing import get_args

from msgspec import Struct
from starlette.responses import Response

from fleet_smi.errors import UsageError
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.server.endpoint import Endpoint, RequestContext
from fleet_smi.server.response_cache import EncodedBody, compress_body, encoded_response
from fleet_smi.wire.prometheus import CONTENT_TYPE, MetricGroup, encode_metrics

_GROUPS: tuple[MetricGroup, ...] = get_args(MetricGroup)


class MetricsQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`include` lists the groups of series that many nodes, GPUs or people make long."""

    include: str = ",".join(_GROUPS)


async def exposition(context: RequestContext) -> Response:
    """One series per GPU and metric; labels have neither pids nor commands."""
    groups = _parse_groups(context.query.include)

    async def encode() -> EncodedBody:
        view = await context.fleet_view()
        # Thousands of GPUs take a moment to encode: not on the event loop.
        own = context.services.own_metrics()
        body = await run_in_query_thread(encode_metrics, view, own, groups)
        return await compress_body(body)

    # Several servers that scrape one hub share what is encoded.
    key = context.request.url.path, groups, context.command_visibility
    body = await context.services.cache.get_or_compute(key, encode)
    return await encoded_response(
        context, body, {"Vary": "Authorization, Cookie"}, media_type=CONTENT_TYPE
    )


def _parse_groups(text: str) -> frozenset[MetricGroup]:
    names = {name.strip() for name in text.split(",") if name.strip()}
    if unknown := names.difference(_GROUPS):
        raise UsageError(
            f"include={', '.join(sorted(unknown))}: the groups are {', '.join(_GROUPS)}"
        )
    return frozenset(group for group in _GROUPS if group in names)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/metrics",
        summary="The fleet for Prometheus",
        required_action="view",
        handler=exposition,
        query=MetricsQuery,
        response=str,
        response_media_types=("text/plain",),
    ),
)
