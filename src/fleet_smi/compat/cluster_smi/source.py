"""The hub's source `cluster-smi`: a port that its nodes push to, and polling of its routers."""

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
from fleet_smi.config.ip_addresses import remote_address
from fleet_smi.errors import DeliveryError, Unreachable, UsageError
from fleet_smi.fleet.delivery import DeliverCallback, Delivery, Source
from fleet_smi.hub.sources.polling import run_together, ticks
from fleet_smi.model.snapshot import Snapshot

if TYPE_CHECKING:
    from fleet_smi.compat.cluster_smi.sockets import Context, Socket

DEFAULT_ROUTER_PORT = 9081
# Longer than the 3 s at which nodes usually push: a live node has a new time by then.
_SECOND_POLL_SECONDS = 4.0
# Of one router, which may have 10,000 nodes, before other tasks have their turn.
_DELIVERED_AT_ONCE = 50


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
    """Receives pushes of nodes at a ZeroMQ endpoint, and polls routers."""

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
        # Twice the limit: a message just above it gets an error instead of a closed connection.
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
        """Poll every router twice: in one response a dead node looks alive."""
        deliveries: list[Delivery] = []
        with sockets.open_context() as context:
            # Shorter than the pause, so that the second response settles which nodes are dead.
            grace = _SECOND_POLL_SECONDS / 2
            pollers = [_RouterPoll(router, RouterNodes(grace)) for router in self.targets]
            for pause in (_SECOND_POLL_SECONDS, 0.0):
                await asyncio.gather(
                    *(self._poll(context, poller, deliveries.append) for poller in pollers)
                )
                await asyncio.sleep(pause)
        return deliveries

    async def run(self, deliver: DeliverCallback) -> None:
        """Receive pushes and poll the routers, each at the interval, until cancelled."""
        with sockets.open_context() as context:
            receiving = (
                () if self.port is None else (self.port.run(partial(self._receive, deliver)),)
            )
            polling = (self._poll_forever(context, router, deliver) for router in self.targets)
            await run_together(*receiving, *polling)

    def _receive(self, deliver: DeliverCallback, socket: "Socket") -> None:
        body, address, connection = sockets.receive_single_frame(socket)
        snapshot = self._pushed.snapshot(decode_node(body), address, self._clock(), connection)
        deliver(
            Delivery(
                source=self.name,
                target=snapshot.node_id,
                result=snapshot,
                id_origin="target",
                address=remote_address(address),
            )
        )

    async def _poll_forever(
        self, context: "Context", router: str, deliver: DeliverCallback
    ) -> None:
        poller = _RouterPoll(router, RouterNodes())
        async for _ in ticks(self._interval_seconds):
            await self._poll(context, poller, deliver)

    async def _poll(
        self, context: "Context", poller: "_RouterPoll", deliver: DeliverCallback
    ) -> None:
        try:
            body = await sockets.request(
                context,
                self._endpoints[poller.router],
                encode_request(f"REQ {os.getpid()}"),
                max_bytes=MAX_CLUSTER_BYTES,
                timeout_seconds=self._timeout_seconds,
            )
            nodes = await asyncio.to_thread(decode_cluster, body)
            if not nodes:
                raise Unreachable("the router knows no node yet")
        except DeliveryError as error:
            failure = type(error)(error.message, poller.router)
            deliver(Delivery(source=self.name, target=poller.router, result=failure))
        else:
            # In a thread: thousands of nodes would block the event loop.
            deliveries = await asyncio.to_thread(poller.new_deliveries, nodes, self._clock())
            for count, delivery in enumerate(deliveries, start=1):
                deliver(delivery)
                if count % _DELIVERED_AT_ONCE == 0:
                    await asyncio.sleep(0)


class _RouterPoll:
    """One router, and the delivery targets of its nodes."""

    def __init__(self, router: str, nodes: RouterNodes) -> None:
        self.router = router
        self._nodes = nodes
        self._first: str | None = None

    def new_deliveries(self, nodes: Sequence[NodeMessage], now: float) -> list[Delivery]:
        """Return a delivery for each node with new data.

        The target of the first node is the router itself, so that failures of the router are
        shown at a node.
        """
        return [
            self._delivery(snapshot, age_seconds)
            for snapshot, age_seconds in self._nodes.new_snapshots(nodes, now)
        ]

    def _delivery(self, snapshot: Snapshot, age_seconds: float) -> Delivery:
        self._first = self._first or snapshot.node_id
        is_first = snapshot.node_id == self._first
        return Delivery(
            source=ClusterSmiSource.name,
            target=self.router if is_first else f"{snapshot.node_id}@{self.router}",
            result=snapshot,
            age_seconds=age_seconds,
            id_origin="target",
        )


def router_endpoint(router: str) -> str:
    """Return the ZeroMQ endpoint of a router; raise `UsageError` for a URL."""
    if "://" in router:
        raise UsageError(f"{router!r} is not a cluster-smi router: give host or host:port")
    # A bracket at the end is a bare IPv6 address, whose last group is not a port.
    has_port = router.rpartition(":")[2].isdecimal() and not router.endswith("]")
    return f"tcp://{router}" if has_port else f"tcp://{router}:{DEFAULT_ROUTER_PORT}"
