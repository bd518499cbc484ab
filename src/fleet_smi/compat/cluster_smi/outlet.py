"""The node's end of cluster-smi: this machine, pushed to a router as its own node does."""

import logging
import os
from typing import TYPE_CHECKING

from fleet_smi.compat.cluster_smi import sockets
from fleet_smi.compat.cluster_smi.codec import encode_node
from fleet_smi.config.addresses import ListenAddress
from fleet_smi.errors import Unreachable
from fleet_smi.failure_log import FailureLog
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.outlets import OutletOptions

if TYPE_CHECKING:
    from fleet_smi.compat.cluster_smi.sockets import Socket

logger = logging.getLogger(__name__)

PROXY_ENVIRONMENT_VARIABLE = "ZEROMQ_SOCKS_PROXY"
_MOST_WAITING = 2
_PATIENCE_MILLISECONDS = 5_000
_LINGER_MILLISECONDS = 500


class ClusterSmiOutlet:
    """Sends each snapshot at once or not at all: a router wants the latest alone.

    Nobody says whether it arrived: a router does not answer.
    """

    name = "cluster_smi"
    requested_interval_seconds = None

    def __init__(self, host: str, port: int, *, proxy: str | None = None) -> None:
        self._zmq = sockets.import_zmq()
        self._endpoint = sockets.format_endpoint(host, port)
        self._context = self._zmq.Context()
        self._socket: Socket = self._connected(proxy or os.environ.get(PROXY_ENVIRONMENT_VARIABLE))
        self._faults = FailureLog(logger, "cluster-smi")

    def publish(self, snapshot: Snapshot) -> None:
        """Send it now, if the router is there to take it."""
        try:
            self._send(snapshot, patience_milliseconds=0)
        except Unreachable as error:
            self._faults.record_failure(error)
        else:
            self._faults.record_success()

    def deliver(self, snapshot: Snapshot) -> None:
        """Send it once the router is there; raise `Unreachable` if it does not come."""
        self._send(snapshot, _PATIENCE_MILLISECONDS)

    def close(self) -> None:
        """Let go; what was just sent has a moment to get out."""
        self._context.destroy(linger=_LINGER_MILLISECONDS)

    def _send(self, snapshot: Snapshot, patience_milliseconds: int) -> None:
        if not self._socket.poll(patience_milliseconds, self._zmq.POLLOUT):
            raise Unreachable(f"no router of cluster-smi takes anything at {self._endpoint}")
        self._socket.send(encode_node(snapshot), self._zmq.NOBLOCK)

    def _connected(self, proxy: str | None) -> "Socket":
        zmq = self._zmq
        socket: Socket = self._context.socket(zmq.PUSH)
        socket.setsockopt(zmq.SNDHWM, _MOST_WAITING)
        # Nothing waits for a router that is not there: old news is of no use to it.
        socket.setsockopt(zmq.IMMEDIATE, 1)
        socket.setsockopt(zmq.TCP_KEEPALIVE, 1)
        socket.setsockopt(zmq.IPV6, "[" in self._endpoint)
        if proxy:
            socket.setsockopt_string(zmq.SOCKS_PROXY, proxy)
        socket.connect(self._endpoint)
        return socket


def create_outlet(address: ListenAddress, _: OutletOptions) -> ClusterSmiOutlet:
    """Make the outlet of `--cluster-smi`."""
    return ClusterSmiOutlet(*address)
