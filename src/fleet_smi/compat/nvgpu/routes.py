"""`GET /gpu_status` and `/cluster_status`: for masters, pages and scripts of nvgpu."""

import asyncio

from starlette.responses import Response

from fleet_smi.compat.nvgpu.codec import MachineStatus, encode_cluster_status, encode_gpu_status
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext
from fleet_smi.server.http_error import HttpError

_NOT_A_NODE = HttpError(
    404,
    "not_a_node",
    "the hub's own machine is none of its nodes: see /cluster_status, or run it --include-self",
)

_NOT_READ = HttpError(503, "not_read", "the hub's own machine could not be read yet, or not lately")


async def gpu_status(context: RequestContext) -> Response:
    """The hub's own machine, if that is a node."""
    view = await context.fleet_view()
    own = next((node for node in view.nodes if node.via == "self"), None)
    if own is None:
        raise ApiError(_NOT_A_NODE)
    if own.silent:
        raise ApiError(_NOT_READ)
    return Response(encode_gpu_status(own), media_type="application/json")


async def cluster_status(context: RequestContext) -> Response:
    """Every node in the order of their names; for a silent one an error in its place."""
    view = await context.fleet_view()
    # Thousands of nodes take a while: not on the event loop.
    body = await asyncio.to_thread(encode_cluster_status, view.nodes)
    return Response(body, media_type="application/json")


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/gpu_status",
        summary="The hub's own machine, as an agent of nvgpu tells it",
        required_action="view",
        handler=gpu_status,
        response=MachineStatus,
        extra_statuses=(404, 503),
    ),
    Endpoint(
        method="GET",
        path="/cluster_status",
        summary="Every node, as a master of nvgpu tells them",
        required_action="view",
        handler=cluster_status,
        response=list[MachineStatus],
    ),
)
