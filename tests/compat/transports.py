"""The transports of other systems for the delivery suite, each with both its ends.

The node's end is a fleet-smi agent that imitates the other system; `tests/end_to_end` has real
ones.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from fleet_smi.compat.cluster_smi.codec import encode_node
from fleet_smi.compat.cluster_smi.outlet import ClusterSmiOutlet
from fleet_smi.compat.cluster_smi.sockets import resolve_bind_endpoint
from fleet_smi.compat.cluster_smi.source import ClusterSmiSource
from fleet_smi.compat.node_info.agent_route import get_status_route
from fleet_smi.compat.node_info.source import NodeInfoSource
from fleet_smi.compat.nvgpu.agent_route import ROUTES
from fleet_smi.compat.nvgpu.source import NvgpuSource
from fleet_smi.hub.sources.files import FilesSource
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.outlets.file import FileOutlet
from fleet_smi.node.outlets.serve import ServeOutlet
from tests.compat.cluster_smi.zeromq_peers import ZeromqNode, ZeromqRouter
from tests.delivery.fixed_response_server import FixedResponseServer
from tests.delivery.source_runner import RecordedDeliveries, run_source
from tests.delivery.suite import AuthenticatedTransport, BreakableTransport, RawTransport, Transport
from tests.machines import wait_until

INTERVAL_SECONDS = 0.05
TIMEOUT_SECONDS = 2.0


class _ServedTransport(AuthenticatedTransport, RawTransport):
    """An agent that serves the JSON of another system."""

    def __init__(self) -> None:
        self._outlet: ServeOutlet | FixedResponseServer = self._serve(0)
        self.target = f"127.0.0.1:{self._outlet.port}"

    @abstractmethod
    def _serve(self, port: int) -> ServeOutlet:
        """Serve with the credentials of the source."""

    @abstractmethod
    def _serve_others(self, port: int) -> ServeOutlet:
        """Serve with other credentials, so that the source is refused."""

    def send(self, snapshot: Snapshot) -> None:
        assert isinstance(self._outlet, ServeOutlet)
        self._outlet.publish(snapshot)

    def encode(self, value: object) -> bytes:
        return msgspec.json.encode(value)

    def send_raw(self, body: bytes) -> None:
        self._outlet.close()
        self._outlet = FixedResponseServer(self._outlet.port, body)

    def block_access(self) -> None:
        self._outlet.close()
        self._outlet = self._serve_others(self._outlet.port)

    def disconnect(self) -> None:
        self._outlet.close()

    def close(self) -> None:
        self._outlet.close()


class NvgpuTransport(_ServedTransport):
    """A machine in the format of an nvgpu agent, which has no memory figures."""

    def __init__(self) -> None:
        super().__init__()
        self.source = NvgpuSource(
            [self.target], interval_seconds=INTERVAL_SECONDS, timeout_seconds=TIMEOUT_SECONDS
        )

    def _serve(self, port: int) -> ServeOutlet:
        return ServeOutlet("127.0.0.1", port, routes=ROUTES)

    def _serve_others(self, port: int) -> ServeOutlet:
        return ServeOutlet("127.0.0.1", port, token="t" * 40, routes=ROUTES)


class NodeInfoTransport(_ServedTransport):
    """A machine in the format of a gpu-cluster-monitor node."""

    def __init__(self) -> None:
        super().__init__()
        self.source = NodeInfoSource(
            [self.target],
            password="sesame",
            interval_seconds=INTERVAL_SECONDS,
            timeout_seconds=TIMEOUT_SECONDS,
        )

    def _serve(self, port: int) -> ServeOutlet:
        return ServeOutlet("127.0.0.1", port, routes=[get_status_route("sesame")])

    def _serve_others(self, port: int) -> ServeOutlet:
        return ServeOutlet("127.0.0.1", port, routes=[get_status_route("another")])


class GpustatTransport(AuthenticatedTransport, RawTransport):
    """Files of `gpustat --json` in a shared folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "shared"
        self._folder.mkdir()
        self._file = self._folder / "gpu01.json"
        self._outlet = FileOutlet(str(self._folder), file_format="gpustat")
        self.source = FilesSource(
            str(self._folder), interval_seconds=INTERVAL_SECONDS, grace_seconds=0.0
        )
        self.target = "gpu01"

    def send(self, snapshot: Snapshot) -> None:
        self._outlet.deliver(snapshot)

    def encode(self, value: object) -> bytes:
        return msgspec.json.encode(value)

    def send_raw(self, body: bytes) -> None:
        draft = self._folder / ".draft"
        draft.write_bytes(body)
        draft.rename(self._file)

    def block_access(self) -> None:
        """A symbolic link, which is never followed, takes the place of the file."""
        self._file.unlink()
        self._file.symlink_to("/etc/hostname")

    def disconnect(self) -> None:
        """The disk goes away."""
        self._folder.rename(self._folder.with_name("gone"))
        self.target = str(self._folder)

    def close(self) -> None:
        self._outlet.close()


_RESEND_SECONDS = 2.0


class ClusterSmiPushTransport(Transport):
    """An agent that pushes as a cluster-smi node does, and the hub's port for such nodes.

    The protocol has no key and no reply: a node that disappears is only silent, and a message that
    cannot be decoded belongs to no node.
    """

    def __init__(self) -> None:
        self._endpoint = resolve_bind_endpoint("127.0.0.1", 0, open_to_all=False)
        self.target = "cluster-smi-gpu01"
        self.source = ClusterSmiSource(listen_endpoint=self._endpoint)
        self._outlet = ClusterSmiOutlet("127.0.0.1", int(self._endpoint.rpartition(":")[2]))

    @contextmanager
    def running(self, first: Snapshot) -> Iterator[RecordedDeliveries]:
        """Run the hub's end first: nothing is buffered for a port that is not bound."""
        with run_source(self.source) as deliveries:
            # As a node does every interval: what it sends before it has noticed that the hub's
            # end was closed in the meantime is lost.
            resend_due = 0.0

            def is_received() -> bool:
                nonlocal resend_due
                if time.monotonic() >= resend_due:
                    resend_due = time.monotonic() + _RESEND_SECONDS
                    self.send(first)
                return bool(deliveries.snapshots)

            wait_until(is_received)
            yield deliveries

    def send(self, snapshot: Snapshot) -> None:
        self._outlet.deliver(snapshot)

    def send_frames(self, *frames: bytes) -> None:
        """Send a message of these frames from another node."""
        with ZeromqNode(self._endpoint) as node:
            node.push(*frames)

    def close(self) -> None:
        self._outlet.close()


class ClusterSmiRouterTransport(BreakableTransport, RawTransport):
    """A cluster-smi router that knows one node, and a hub that polls it."""

    def __init__(self) -> None:
        self._response: Callable[[], list[bytes]] = lambda: [b""]
        self._router = ZeromqRouter(self._respond)
        self.target = f"127.0.0.1:{self._router.clients_port}"
        self.source = ClusterSmiSource(
            routers=[self.target], interval_seconds=INTERVAL_SECONDS, timeout_seconds=0.5
        )

    def _respond(self) -> list[bytes]:
        return self._response()

    def send(self, snapshot: Snapshot) -> None:
        def cluster() -> list[bytes]:
            # A live node pushes again and again: a stamp that stays the same is a dead node's.
            node = msgspec.Raw(encode_node(replace(snapshot, taken_at=time.time())))
            return [msgspec.msgpack.encode({"Nodes": [node]})]

        self._response = cluster

    def send_raw(self, body: bytes) -> None:
        self._response = lambda: [body]

    def disconnect(self) -> None:
        self._router.close()

    def close(self) -> None:
        self._router.close()


def open_transport(name: str, folder: Path) -> Transport:
    """Open the transport of this name, with its state in `folder`."""
    if name == "gpustat":
        return GpustatTransport(folder)
    if name == "nvgpu":
        return NvgpuTransport()
    if name == "node_info":
        return NodeInfoTransport()
    return ClusterSmiPushTransport() if name == "pushed" else ClusterSmiRouterTransport()
