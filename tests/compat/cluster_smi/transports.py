"""The two ways of cluster-smi, each with both its ends, as `ways.py` has the others.

A node that pushes and is gone is only silent, and nobody here has a key: these ways have
neither `refuse` nor, for what is pushed, `die`.
"""

import time
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from fleet_smi.compat.cluster_smi.codec import encode_node
from fleet_smi.compat.cluster_smi.outlet import ClusterSmiOutlet
from fleet_smi.compat.cluster_smi.sockets import resolve_bind_endpoint
from fleet_smi.compat.cluster_smi.source import ClusterSmiSource
from fleet_smi.fleet.delivery import Source
from fleet_smi.model.snapshot import Snapshot
from tests.compat.cluster_smi.zeromq_peers import ZeromqNode, ZeromqRouter

INTERVAL_SECONDS = 0.05
TIMEOUT_SECONDS = 0.5


class ClusterSmiPushTransport:
    """An agent that pushes, and the hub's port."""

    def __init__(self) -> None:
        endpoint = resolve_bind_endpoint("127.0.0.1", 0, open_to_all=False)
        self.target = "cluster-smi-gpu01"
        self.source: Source = ClusterSmiSource(listen_endpoint=endpoint)
        self._endpoint = endpoint
        port = int(endpoint.rpartition(":")[2])
        self._outlet = ClusterSmiOutlet("127.0.0.1", port)

    def send(self, snapshot: Snapshot) -> None:
        self._outlet.deliver(snapshot)

    def send_raw(self, *frames: bytes) -> None:
        with ZeromqNode(self._endpoint) as node:
            node.push(*frames)

    def close(self) -> None:
        self._outlet.close()


class ClusterSmiRouterTransport:
    """A router that knows one node, and a hub that asks it."""

    def __init__(self) -> None:
        self._answer: Callable[[], list[bytes]] = lambda: [b""]
        self._router = ZeromqRouter(self._told)
        self.target = f"127.0.0.1:{self._router.clients_port}"
        self.source: Source = ClusterSmiSource(
            routers=[self.target],
            interval_seconds=INTERVAL_SECONDS,
            timeout_seconds=TIMEOUT_SECONDS,
        )

    def _told(self) -> list[bytes]:
        return self._answer()

    def send(self, snapshot: Snapshot) -> None:
        """The node lives on: at every look it has just told its router the same."""

        def cluster() -> list[bytes]:
            told = msgspec.Raw(encode_node(replace(snapshot, taken_at=time.time())))
            return [msgspec.msgpack.encode({"Nodes": [told]})]

        self._answer = cluster

    def send_raw(self, *frames: bytes) -> None:
        self._answer = lambda: list(frames)

    def disconnect(self) -> None:
        self._router.close()

    def close(self) -> None:
        self._router.close()


ZeromqTransport = ClusterSmiPushTransport | ClusterSmiRouterTransport
ZEROMQ_TRANSPORTS: dict[str, Callable[[], ZeromqTransport]] = {
    "pushed": ClusterSmiPushTransport,
    "routed": ClusterSmiRouterTransport,
}
