"""`GET /api/v1/nodes/{node_id}/recent`: the last hour of one node, for plots."""

import msgspec
from starlette.responses import Response

from fleet_smi.hub.recent import Hour
from fleet_smi.server.answers import pack, unpacked
from fleet_smi.server.endpoint import ApiError, Asked, Endpoint
from fleet_smi.server.refusal import Refusal


async def recent(asked: Asked) -> Response:
    """What one node and its GPUs did in the last hour."""
    node_id, now = asked.path["node_id"], asked.hub.clock()
    if asked.hub.fleet.parts(node_id, now) is None:
        raise ApiError(Refusal(404, "unknown_node", f"no node has the id {node_id}"))
    body = msgspec.json.encode(asked.hub.recent.hour(node_id, now))
    headers = {"Cache-Control": "no-cache", "Vary": "Authorization, Cookie"}
    return await unpacked(asked, await pack(body), headers)


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/nodes/{node_id:path}/recent",
        summary="The last hour of one node and its GPUs",
        may="view",
        handle=recent,
        answer=Hour,
        also=(404,),
    ),
)
