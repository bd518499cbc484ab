"""Outlet that pushes this machine to a cluster-smi router, as a cluster-smi node does."""

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
_MAX_QUEUED = 2  # messages; a slow router must not get a backlog of old ones
_TIMEOUT_MILLISECONDS = 5_000
_LINGER_MILLISECONDS = 500


class ClusterSmiOutlet:
    """Sends each snapshot now or drops it: a router has no use for old ones.

    Delivery is not confirmed, because a router does not reply.
    """

    name = "cluster_smi"
    requested_interval_seconds = None

    def __init__(self, host: str, port: int, *, proxy: str | None = None) -> None:
        self._zmq = sockets.import_zmq()
        self._endpoint = sockets.format_endpoint(host, port)
        self._context = self._zmq.Context()
        self._socket: Socket = self._connect(proxy or os.environ.get(PROXY_ENVIRONMENT_VARIABLE))
        self._faults = FailureLog(logger, "cluster-smi")

    def publish(self, snapshot: Snapshot) -> None:
        """Send the snapshot if the router is connected; log a failure once."""
        try:
            self._send(snapshot, timeout_milliseconds=0)
        except Unreachable as error:
            self._faults.record_failure(error)
        else:
            self._faults.record_success()

    def deliver(self, snapshot: Snapshot) -> None:
        """Wait for the router and send; raise `Unreachable` after the timeout."""
        self._send(snapshot, _TIMEOUT_MILLISECONDS)

    def close(self) -> None:
        """Close the socket; a message just sent has half a second to leave."""
        self._context.destroy(linger=_LINGER_MILLISECONDS)

    def _send(self, snapshot: Snapshot, timeout_milliseconds: int) -> None:
        # Not ready means that no router is connected, or that its queue is full.
        if not self._socket.poll(timeout_milliseconds, self._zmq.POLLOUT):
            raise Unreachable(f"no cluster-smi router accepts messages at {self._endpoint}")
        self._socket.send(encode_node(snapshot), self._zmq.NOBLOCK)

    def _connect(self, proxy: str | None) -> "Socket":
        zmq = self._zmq
        socket: Socket = self._context.socket(zmq.PUSH)
        socket.setsockopt(zmq.SNDHWM, _MAX_QUEUED)
        # Queue only to a completed connection: a router that is down must not get old snapshots.
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
