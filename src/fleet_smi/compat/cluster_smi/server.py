"""Listener for cluster-smi clients: the whole fleet, to every client that can reach the port."""

import asyncio
from typing import TYPE_CHECKING

from fleet_smi.compat.cluster_smi import sockets
from fleet_smi.compat.cluster_smi.codec import encode_cluster
from fleet_smi.compat.cluster_smi.source import router_endpoint
from fleet_smi.config.settings import HubSettings
from fleet_smi.errors import Undecodable, UsageError
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.model.command_visibility import CommandVisibility
from fleet_smi.model.fleet import FleetView, NodeView
from fleet_smi.model.privacy import mask_commands
from fleet_smi.model.views import summarize_nodes

if TYPE_CHECKING:
    from fleet_smi.compat.cluster_smi.sockets import Socket

_MAX_REQUEST_BYTES = 64 << 10
_MAX_WAITING = 10_000  # clients: peers can open any number of connections
_CACHE_SECONDS = 1.0
_NODES_PER_STEP = 8


def create_listener(settings: HubSettings, hub: Hub) -> "ClusterSmiServer":
    """Bind the port of `hub.cluster_smi_clients`; raise `UsageError` where it cannot be."""
    address, nodes = settings.cluster_smi_clients, settings.cluster_smi_nodes
    if address is None:
        raise UsageError("hub.cluster_smi_clients is not set: give it a port")
    if nodes is not None and nodes.port == address.port != 0:
        raise UsageError(
            f"hub.cluster_smi_nodes and hub.cluster_smi_clients are both {address.port}"
        )
    for router in settings.cluster_smi_routers:
        endpoint = router_endpoint(router)
        if endpoint.endswith(f":{address.port}") and sockets.is_local_endpoint(endpoint):
            raise UsageError(
                f"the hub would poll itself: hub.cluster_smi_routers has {router}, "
                "where hub.cluster_smi_clients is"
            )
    endpoint = sockets.resolve_bind_endpoint(*address, open_to_all=settings.cluster_smi_open)
    return ClusterSmiServer(endpoint, hub, settings.commands_for_viewers)


class ClusterSmiServer:
    """Serves the fleet at `endpoint`; a response is cached for a second (single flight)."""

    def __init__(self, endpoint: str, hub: Hub, command_visibility: CommandVisibility) -> None:
        self.port = sockets.BoundSocket("ROUTER", endpoint, _MAX_REQUEST_BYTES)
        self._hub = hub
        self._command_visibility = command_visibility
        self._response: bytes | None = None
        self._version = -1
        self._encoded_at = 0.0
        self._waiting: set[bytes] = set()
        self._encoding: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Serve until cancelled."""
        try:
            await self.port.run(self._handle)
        finally:
            if self._encoding is not None:
                self._encoding.cancel()
                await asyncio.wait([self._encoding])

    def _handle(self, socket: "Socket") -> None:
        """Handle one request: the client's id, an empty frame, and a body that is not read."""
        # A REQ socket puts an empty frame before the body; other socket types may not.
        client, *frames = sockets.receive_frames(socket)
        if not frames or frames[0]:
            raise Undecodable("a message that is not a request")
        if self._response is not None and self._is_fresh():
            self.port.send([client, b"", self._response])
        elif len(self._waiting) < _MAX_WAITING:
            self._waiting.add(client)
            if self._encoding is None:
                self._encoding = asyncio.create_task(self._encode())

    def _is_fresh(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self._hub.version == self._version or now < self._encoded_at + _CACHE_SECONDS

    async def _view(self) -> FleetView:
        """The fleet, built in steps: all at once would delay reports."""
        now, nodes = self._hub.clock(), list[NodeView]()
        for node in self._hub.fleet.nodes(now):
            nodes.append(mask_commands(node, self._command_visibility))
            if len(nodes) % _NODES_PER_STEP == 0:
                await asyncio.sleep(0)
        return FleetView(taken_at=now, summary=summarize_nodes(nodes), nodes=tuple(nodes))

    async def _encode(self) -> None:
        """Encode the response again, for every client that waits for it."""
        try:
            # Read before the view: a report that arrives in between makes the response outdated,
            # and is never missed.
            self._version = self._hub.version
            view = await self._view()
            # In a thread: thousands of nodes would block the event loop.
            self._response = await run_in_query_thread(encode_cluster, view)
            self._encoded_at = asyncio.get_running_loop().time()
        finally:
            # Also after an error: the next request starts another attempt for all waiting clients.
            self._encoding = None
        waiting, self._waiting = self._waiting, set()
        for client in waiting:
            self.port.send([client, b"", self._response])
        # ZeroMQ's descriptor is edge-triggered: sending may have consumed the edge of a request.
        self.port.drain()
