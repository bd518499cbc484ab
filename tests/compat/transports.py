"""The ways in which nodes of other systems are heard, each with both its ends.

The node's end is a fleet-smi agent that stands in for the other system: the real ones are
asked in `tests/fleet`. The methods are those of `ways.py`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from fleet_smi.compat.node_info.agent_route import get_status_route
from fleet_smi.compat.node_info.source import NodeInfoSource
from fleet_smi.compat.nvgpu.agent_route import GPU_STATUS_ROUTE
from fleet_smi.compat.nvgpu.source import NvgpuSource
from fleet_smi.fleet.delivery import Source
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.outlets.serve import ServeOutlet
from tests.delivery.fixed_response_server import FixedResponseServer

INTERVAL_SECONDS = 0.05
TIMEOUT_SECONDS = 2.0


class _ServedWay(ABC):
    """An agent that serves."""

    source: Source

    def __init__(self) -> None:
        self._outlet: ServeOutlet | FixedResponseServer = self._opened(0)
        self.target = f"127.0.0.1:{self._outlet.port}"

    @abstractmethod
    def _opened(self, port: int) -> ServeOutlet:
        """One that answers us on a port."""

    @abstractmethod
    def _closed(self, port: int) -> ServeOutlet:
        """One there that answers us no more."""

    def send(self, snapshot: Snapshot) -> None:
        assert isinstance(self._outlet, ServeOutlet)
        self._outlet.publish(snapshot)

    def send_raw(self, body: bytes) -> None:
        self._outlet.close()
        self._outlet = FixedResponseServer(self._outlet.port, body)

    def block_access(self) -> None:
        self._outlet.close()
        self._outlet = self._closed(self._outlet.port)

    def disconnect(self) -> None:
        self._outlet.close()

    def close(self) -> None:
        self._outlet.close()


class NvgpuTransport(_ServedWay):
    """A machine as nvgpu's agent tells it."""

    def __init__(self) -> None:
        super().__init__()
        self.source = NvgpuSource(
            [self.target], interval_seconds=INTERVAL_SECONDS, timeout_seconds=TIMEOUT_SECONDS
        )

    def _opened(self, port: int) -> ServeOutlet:
        return ServeOutlet("127.0.0.1", port, routes=[GPU_STATUS_ROUTE])

    def _closed(self, port: int) -> ServeOutlet:
        return ServeOutlet("127.0.0.1", port, token="t" * 40, routes=[GPU_STATUS_ROUTE])


class NodeInfoTransport(_ServedWay):
    """A machine as a node of gpu-cluster-monitor tells it."""

    def __init__(self) -> None:
        super().__init__()
        self.source = NodeInfoSource(
            [self.target],
            password="sesame",
            interval_seconds=INTERVAL_SECONDS,
            timeout_seconds=TIMEOUT_SECONDS,
        )

    def _opened(self, port: int) -> ServeOutlet:
        return ServeOutlet("127.0.0.1", port, routes=[get_status_route("sesame")])

    def _closed(self, port: int) -> ServeOutlet:
        return ServeOutlet("127.0.0.1", port, routes=[get_status_route("another")])


CompatTransport = NvgpuTransport | NodeInfoTransport
COMPAT_TRANSPORTS: dict[str, Callable[[], CompatTransport]] = {
    "nvgpu": NvgpuTransport,
    "node_info": NodeInfoTransport,
}
