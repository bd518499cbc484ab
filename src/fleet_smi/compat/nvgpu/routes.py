"""HTTP routes `GET /gpu_status` and `/cluster_status`, for masters and scripts of nvgpu."""

from starlette.responses import Response

from fleet_smi.compat.nvgpu.codec import MachineStatus, encode_cluster_status, encode_gpu_status
from fleet_smi.compat.settings_order import in_settings_order
from fleet_smi.compat.status_response import encode_response
from fleet_smi.errors import Unmet
from fleet_smi.server.endpoint import ApiError, Endpoint, RequestContext
from fleet_smi.server.http_error import HttpError

_NOT_A_NODE = HttpError(
    404,
    "not_a_node",
    "the hub's own machine is not one of its nodes: see /cluster_status, or start the hub with "
    "--include-self",
)

_NOT_READ = HttpError(
    503, "not_read", "the hub's own machine has not been read yet, or not recently"
)


async def gpu_status(context: RequestContext) -> Response:
    """Return the hub's own machine, if it is a node."""
    view = await context.fleet_view()
    own = next((node for node in view.nodes if node.via == "self"), None)
    if own is None:
        raise ApiError(_NOT_A_NODE)
    if own.silent:
        raise ApiError(_NOT_READ)
    try:
        return await encode_response(encode_gpu_status, own)
    except Unmet as error:
        raise ApiError(HttpError(503, "driver_failed", str(error))) from None


async def cluster_status(context: RequestContext) -> Response:
    """Return every node in the order of the settings, with an error in place of a silent one."""
    view = in_settings_order(await context.fleet_view(), context.hub)
    return await encode_response(encode_cluster_status, view.nodes)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/gpu_status",
        summary="The hub's own machine, in the format of an nvgpu agent",
        required_action="view",
        handler=gpu_status,
        response=MachineStatus,
        extra_statuses=(404, 503),
    ),
    Endpoint(
        method="GET",
        path="/cluster_status",
        summary="Every node, in the format of an nvgpu master",
        required_action="view",
        handler=cluster_status,
        response=list[MachineStatus],
    ),
)
