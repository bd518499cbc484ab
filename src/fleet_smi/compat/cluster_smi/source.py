"""The hub's ends of cluster-smi: the port that its nodes push to, and its routers, asked."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from fleet_smi.compat.cluster_smi import sockets
from fleet_smi.compat.cluster_smi.codec import (
    MAX_CLUSTER_BYTES,
    MAX_NODE_BYTES,
    NodeMessage,
    decode_cluster,
    decode_node,
    encode_request,
)
from fleet_smi.compat.cluster_smi.nodes import PushedNodes, RouterNodes
from fleet_smi.config import Settings
from fleet_smi.errors import DeliveryError, Unreachable, UsageError
from fleet_smi.fleet.delivery import DeliverCallback, Delivery, Source
from fleet_smi.hub.sources.polling import ticks
from fleet_smi.model.snapshot import Snapshot

if TYPE_CHECKING:
    from fleet_smi.compat.cluster_smi.sockets import Context, Socket

DEFAULT_ROUTER_PORT = 9081
_SECOND_LOOK_SECONDS = 4.0


def create_sources(settings: Settings) -> list[Source]:
    """Create the source that receives pushes of nodes and polls the routers of the settings."""
    hub = settings.hub
    nodes, open_to_all = hub.cluster_smi_nodes, hub.cluster_smi_open
    return [
        ClusterSmiSource(
            listen_endpoint=nodes
            and sockets.resolve_bind_endpoint(*nodes, open_to_all=open_to_all),
            routers=hub.cluster_smi_routers,
            interval_seconds=hub.cluster_smi_interval,
        )
    ]


class ClusterSmiSource:
    """Hears nodes at `nodes`, where to listen as ZeroMQ writes it, and asks routers."""

    name = "cluster-smi"

    def __init__(
        self,
        *,
        listen_endpoint: str | None = None,
        routers: Sequence[str] = (),
        interval_seconds: float = 3.0,
        timeout_seconds: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        sockets.import_zmq()
        self.targets = tuple(routers)
        # More than the most: what a little exceeds that is told, and not only hung up on.
        self.port = (
            sockets.BoundSocket("PULL", listen_endpoint, 2 * MAX_NODE_BYTES)
            if listen_endpoint
            else None
        )
        self._endpoints = {router: router_endpoint(router) for router in routers}
        self._interval_seconds = interval_seconds
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._pushed = PushedNodes()

    async def poll(self) -> Sequence[Delivery]:
        """Ask every router twice: by one answer, a dead node looks alive."""
        heard: list[Delivery] = []
        with sockets.open_context() as opened:
            patience = _SECOND_LOOK_SECONDS / 2
            asking = [_Asking(router, RouterNodes(patience)) for router in self.targets]
            for pause in (_SECOND_LOOK_SECONDS, 0.0):
                await asyncio.gather(*(self._ask(opened, one, heard.append) for one in asking))
                await asyncio.sleep(pause)
        return heard

    async def run(self, deliver: DeliverCallback) -> None:
        """Hear the nodes and ask the routers, each on its own ticks, until cancelled."""
        with sockets.open_context() as opened:
            async with asyncio.TaskGroup() as group:
                if self.port is not None:
                    group.create_task(self.port.run(partial(self._take, deliver)))
                for router in self.targets:
                    group.create_task(self._keep_asking(opened, router, deliver))

    def _take(self, deliver: DeliverCallback, socket: "Socket") -> None:
        body, address = sockets.receive_single_frame(socket)
        snapshot = self._pushed.snapshot(decode_node(body), address, self._clock())
        deliver(Delivery(source=self.name, target=snapshot.node_id, result=snapshot))

    async def _keep_asking(self, opened: "Context", router: str, deliver: DeliverCallback) -> None:
        asking = _Asking(router, RouterNodes())
        async for _ in ticks(self._interval_seconds):
            await self._ask(opened, asking, deliver)

    async def _ask(self, opened: "Context", asking: "_Asking", deliver: DeliverCallback) -> None:
        try:
            body = await sockets.request(
                opened,
                self._endpoints[asking.router],
                encode_request(f"REQ {os.getpid()}"),
                max_bytes=MAX_CLUSTER_BYTES,
                timeout_seconds=self._timeout_seconds,
            )
            nodes = await asyncio.to_thread(decode_cluster, body)
            if not nodes:
                raise Unreachable("its router answers, and knows of no node yet")
        except DeliveryError as error:
            failure = type(error)(error.message, asking.router)
            deliver(Delivery(source=self.name, target=asking.router, result=failure))
        else:
            # Thousands of nodes take a while: not on the event loop.
            for delivery in await asyncio.to_thread(asking.news, nodes, self._clock()):
                deliver(delivery)


class _Asking:
    """One router, and what its nodes are called here."""

    def __init__(self, router: str, routed: RouterNodes) -> None:
        self.router = router
        self._routed = routed
        self._first: str | None = None

    def news(self, nodes: Sequence[NodeMessage], now: float) -> list[Delivery]:
        """What is new.

        The first of the nodes goes by the router's own name: there is told what ails the router.
        """
        return [self._delivery(*each) for each in self._routed.new_snapshots(nodes, now)]

    def _delivery(self, snapshot: Snapshot, age_seconds: float) -> Delivery:
        self._first = self._first or snapshot.node_id
        is_first = snapshot.node_id == self._first
        return Delivery(
            source=ClusterSmiSource.name,
            target=self.router if is_first else f"{snapshot.node_id}@{self.router}",
            result=snapshot,
            age_seconds=age_seconds,
        )


def router_endpoint(router: str) -> str:
    """Where a router is asked, as ZeroMQ writes it."""
    if "://" in router:
        raise UsageError(f"{router!r} is no router of cluster-smi: give host or host:port")
    has_port = router.rpartition(":")[2].isdecimal() and not router.endswith("]")
    return f"tcp://{router}" if has_port else f"tcp://{router}:{DEFAULT_ROUTER_PORT}"
