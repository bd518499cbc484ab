"""The port that clients of cluster-smi ask: the whole fleet, to everybody who reaches it."""

import asyncio
from typing import TYPE_CHECKING

from fleet_smi.compat.cluster_smi import sockets
from fleet_smi.compat.cluster_smi.codec import encode_cluster
from fleet_smi.compat.cluster_smi.source import router_endpoint
from fleet_smi.config.settings import HubSettings
from fleet_smi.errors import Undecodable, UsageError
from fleet_smi.hub.hub import Hub
from fleet_smi.model.command_visibility import CommandVisibility
from fleet_smi.model.privacy import mask_commands

if TYPE_CHECKING:
    from fleet_smi.compat.cluster_smi.sockets import Socket

_MOST_REQUEST_BYTES = 64 << 10
_MOST_WAITING = 10_000
_AT_MOST_EVERY_SECONDS = 1.0


def create_listener(settings: HubSettings, hub: Hub) -> "ClusterSmiServer":
    """Bind the port of `hub.cluster_smi_clients`; raise `UsageError` where it cannot be."""
    where, nodes = settings.cluster_smi_clients, settings.cluster_smi_nodes
    if where is None:
        raise UsageError("hub.cluster_smi_clients is not set: give it a port")
    if nodes is not None and nodes.port == where.port != 0:
        raise UsageError(f"hub.cluster_smi_nodes and hub.cluster_smi_clients are both {where.port}")
    for router in settings.cluster_smi_routers:
        asked = router_endpoint(router)
        if asked.endswith(f":{where.port}") and sockets.is_local_endpoint(asked):
            raise UsageError(
                f"the hub would ask itself: hub.cluster_smi_routers has {router}, "
                "where hub.cluster_smi_clients is"
            )
    endpoint = sockets.resolve_bind_endpoint(*where, open_to_all=settings.cluster_smi_open)
    return ClusterSmiServer(endpoint, hub, settings.commands_for_viewers)


class ClusterSmiServer:
    """Answers at `endpoint`; an answer is made once for all who ask within a second."""

    def __init__(self, endpoint: str, hub: Hub, command_visibility: CommandVisibility) -> None:
        self.port = sockets.BoundSocket("ROUTER", endpoint, _MOST_REQUEST_BYTES)
        self._hub = hub
        self._commands = command_visibility
        self._answer: bytes | None = None
        self._version = -1
        self._made_at = 0.0
        self._waiting: set[bytes] = set()
        self._making: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Answer until cancelled."""
        try:
            await self.port.run(self._take)
        finally:
            if self._making is not None:
                self._making.cancel()
                await asyncio.wait([self._making])

    def _take(self, socket: "Socket") -> None:
        """One request: who asks, an empty frame, and whatever they say."""
        asker, *said = sockets.receive_frames(socket)
        if not said or said[0]:
            raise Undecodable("a message that is no request")
        if self._answer is not None and self._is_fresh():
            self.port.send([asker, b"", self._answer])
        elif len(self._waiting) < _MOST_WAITING:
            self._waiting.add(asker)
            if self._making is None:
                self._making = asyncio.create_task(self._make())

    def _is_fresh(self) -> bool:
        now = asyncio.get_running_loop().time()
        return self._hub.version == self._version or now < self._made_at + _AT_MOST_EVERY_SECONDS

    async def _make(self) -> None:
        """Make the answer anew, for all who wait for it."""
        try:
            self._version = self._hub.version
            view = mask_commands(self._hub.fleet.view(self._hub.clock()), self._commands)
            # Thousands of nodes take a while: not on the event loop.
            self._answer = await asyncio.to_thread(encode_cluster, view)
            self._made_at = asyncio.get_running_loop().time()
        finally:
            self._making = None
        waiting, self._waiting = self._waiting, set()
        for asker in waiting:
            self.port.send([asker, b"", self._answer])
        self.port.drain()  # to send may have used up the news of what came meanwhile
