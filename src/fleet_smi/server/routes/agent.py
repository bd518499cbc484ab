"""`GET /api/v1/agent`: what the hub has of the node that asks, for its own agent."""

from msgspec import Struct
from starlette.responses import Response

from fleet_smi import __version__
from fleet_smi.server.endpoint import Endpoint, RequestContext, json_response


class AgentState(Struct, frozen=True, kw_only=True):
    """The hub's version, and the last report of the node that asks.

    `reported_at` is when its last sample was taken, by the hub's clock; `None` without one.
    """

    hub_version: str
    now: float
    agent_version: str | None = None
    reported_at: float | None = None


async def agent_state(context: RequestContext) -> Response:
    """The last report of the node whose credential the request has."""
    now = context.hub.clock()
    node_id = None if context.identity is None else context.identity.node_id
    node = None if node_id is None else await context.hub.node_detail(node_id)
    if node is None or node.age_seconds is None:
        return json_response(AgentState(hub_version=__version__, now=now))
    return json_response(
        AgentState(
            hub_version=__version__,
            now=now,
            agent_version=node.agent_version,
            reported_at=now - node.age_seconds,
        )
    )


ENDPOINTS = (
    Endpoint(
        method="GET",
        path="/api/v1/agent",
        summary="The hub's version and the last report of the node that asks",
        required_action="report",
        handler=agent_state,
        response=AgentState,
    ),
)
