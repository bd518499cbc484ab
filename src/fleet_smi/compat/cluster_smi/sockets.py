"""ZeroMQ sockets of cluster-smi on the event loop, with limits on size, queue and time."""

import asyncio
import logging
import socket as sockets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from fleet_smi.errors import Undecodable, Unreachable, UsageError
from fleet_smi.extras import missing_extra
from fleet_smi.failure_log import FailureLog
from fleet_smi.hub.async_timeout import timeout

if TYPE_CHECKING:
    import zmq

    Context: TypeAlias = zmq.Context[zmq.Socket[bytes]]
    Socket: TypeAlias = zmq.Socket[bytes]

logger = logging.getLogger(__name__)
# The value of zmq.NOBLOCK: pyzmq is an optional extra, so it is not imported with this module.
_NOBLOCK = 1
_MAX_DRAIN_SECONDS = 0.01
_MAX_QUEUED = 100
# How long no message must be dropped before the next drop is logged again.
_QUIET_SECONDS = 60.0


def import_zmq() -> Any:
    """Import pyzmq; raise `UsageError` with the command that installs it."""
    try:
        import zmq
    except ImportError:
        raise missing_extra("zmq", "cluster-smi") from None
    return zmq


@contextmanager
def open_context() -> Iterator["Context"]:
    """Open a ZeroMQ context; leaving it closes its sockets, threads and descriptors."""
    context = import_zmq().Context()
    try:
        yield context
    finally:
        context.destroy(linger=0)


def format_endpoint(host: str, port: int) -> str:
    """Return an address in the notation of ZeroMQ."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def resolve_bind_endpoint(host: str, port: int, *, open_to_all: bool) -> str:
    """Return an endpoint that can be bound now; raise `UsageError` otherwise.

    Port 0 becomes a free port. Addresses other than loopback need `open_to_all`.
    """
    import_zmq()
    try:
        candidates = sockets.getaddrinfo(
            host or None, port, type=sockets.SOCK_STREAM, flags=sockets.AI_PASSIVE
        )
        family, _, _, _, address = candidates[0]
        numeric = str(address[0])
        # Checked by the resolved address: a host name can resolve to any. "%" starts an IPv6 zone.
        if not open_to_all and not ip_address(numeric.partition("%")[0]).is_loopback:
            raise UsageError(
                f"cluster-smi has no password: to listen on {host or 'all addresses'}, "
                "set hub.cluster_smi_open = true"
            )
        # ZeroMQ binds later, in `run`: a port that is taken must be an error at start-up.
        with sockets.create_server((numeric, port), family=family) as probe:
            return format_endpoint(numeric, probe.getsockname()[1])
    except OSError as error:
        reason = (error.strerror or str(error)).partition(" (while")[0]  # added by Python
        raise UsageError(f"cannot listen on {host}:{port}: {reason}") from None


def is_local_endpoint(endpoint: str) -> bool:
    """Whether an endpoint is on this machine, by trying to bind its address."""
    parts = urlsplit(endpoint)
    with suppress(OSError):
        for family, kind, _, _, address in sockets.getaddrinfo(parts.hostname, 0):
            with suppress(OSError), sockets.socket(family, kind) as probe:
                probe.bind(address)
                return True
    return False


def receive_frames(socket: "Socket") -> list[bytes]:
    """Receive one message; raise pyzmq's `Again` if there is none."""
    return socket.recv_multipart(_NOBLOCK)


def receive_single_frame(socket: "Socket") -> tuple[bytes, str, int]:
    """Receive a message of one frame, its sender's address, and the number of its connection.

    Raise `Undecodable` or `Again`.
    """
    frame = socket.recv(_NOBLOCK, copy=False)
    if not frame.more:
        connection = int(frame.get(import_zmq().SRCFD))
        return frame.bytes, str(frame.get("Peer-Address")), connection
    # Take the remaining frames too: otherwise the next receive starts inside this message.
    frames = 1 + len(socket.recv_multipart(_NOBLOCK))
    raise Undecodable(f"a message of {frames} frames instead of one")


class BoundSocket:
    """A socket that peers connect to; each message is handled, or dropped and counted."""

    def __init__(self, socket_type: str, endpoint: str, max_bytes: int) -> None:
        self.endpoint = endpoint
        self.dropped = 0
        self._zmq = import_zmq()
        self._socket_type = socket_type
        self._max_bytes = max_bytes
        self._faults = FailureLog(logger, endpoint)
        self._dropped_at: float | None = None
        self._draining = False
        self._socket: Socket | None = None
        self._handle_next: Callable[[Socket], None]

    async def run(self, handle_next: Callable[["Socket"], None]) -> None:
        """Call `handle_next` for each message until cancelled.

        It must not block: it raises pyzmq's `Again` when there is no message.
        """
        loop = asyncio.get_running_loop()
        with open_context() as context:
            # The flag may be left over from an earlier run that was cancelled while draining.
            self._socket, self._draining = self._bind(context), False
            self._handle_next = handle_next
            descriptor = int(self._socket.getsockopt(self._zmq.FD))
            loop.add_reader(descriptor, self.drain)
            # Messages that arrived before the reader was added cause no further event.
            loop.call_soon(self.drain)
            try:
                await asyncio.Event().wait()
            finally:
                loop.remove_reader(descriptor)
                self._socket.close()
                self._socket = None

    def drain(self) -> None:
        """Handle all queued messages, yielding to other tasks every 10 ms.

        ZeroMQ's descriptor is edge-triggered: only an empty queue may end this.
        """
        # Otherwise a continuation is scheduled already, and a second one would double the load.
        if not self._draining:
            self._drain_for_a_while()

    def _drain_for_a_while(self) -> None:
        self._draining = False
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + _MAX_DRAIN_SECONDS
        while loop.time() < ends_at:
            # A scheduled continuation may come after `run` has closed the socket.
            if self._socket is None:
                return
            try:
                self._handle_next(self._socket)
            except self._zmq.Again:
                return
            except Exception as error:  # noqa: BLE001  # one bad message must not stop the rest
                self._drop(error)
            else:
                if self._dropped_at is not None:
                    self._clear_failure(self._dropped_at)
        self._draining = True
        loop.call_soon(self._drain_for_a_while)

    def send(self, frames: list[bytes]) -> None:
        """Send now or drop: a peer that does not read gets nothing."""
        if self._socket is not None:
            # ZeroMQ updates the room in a peer's queue when its events are read, and otherwise
            # only now and then: without this it silently drops messages that would fit.
            self._socket.getsockopt(self._zmq.EVENTS)
            try:
                self._socket.send_multipart(frames, _NOBLOCK)
            except self._zmq.ZMQError as error:
                self._drop(error)

    def _bind(self, context: "Context") -> "Socket":
        socket: Socket = context.socket(getattr(self._zmq, self._socket_type))
        socket.setsockopt(self._zmq.LINGER, 0)
        socket.setsockopt(self._zmq.MAXMSGSIZE, self._max_bytes)
        socket.setsockopt(self._zmq.IPV6, "[" in self.endpoint)
        socket.setsockopt(self._zmq.RCVHWM, _MAX_QUEUED)
        # Per peer: a client that never reads must not make the hub hold copies of the fleet for it.
        socket.setsockopt(self._zmq.SNDHWM, 2)
        socket.bind(self.endpoint)
        return socket

    def _drop(self, error: Exception) -> None:
        self.dropped += 1
        self._dropped_at = time.monotonic()
        self._faults.record_failure(error)

    def _clear_failure(self, dropped_at: float) -> None:
        # Not at the first good message: good and bad peers alternate, and each would be logged.
        if time.monotonic() - dropped_at > _QUIET_SECONDS:
            self._dropped_at = None
            self._faults.record_success()


async def request(
    context: "Context", endpoint: str, payload: bytes, *, max_bytes: int, timeout_seconds: float
) -> bytes:
    """Send one request and return the response; raise `Unreachable` or `Undecodable`.

    Each request has its own socket: a REQ socket without a reply cannot send again.
    """
    zmq, loop = import_zmq(), asyncio.get_running_loop()
    response: asyncio.Future[list[bytes]] = loop.create_future()
    socket: Socket = context.socket(zmq.REQ)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, max_bytes)
    socket.setsockopt(zmq.IPV6, "[" in endpoint)

    def receive() -> None:
        try:
            frames = socket.recv_multipart(_NOBLOCK)
        except zmq.Again:
            return
        if not response.done():
            response.set_result(frames)

    descriptor = int(socket.getsockopt(zmq.FD))
    try:
        socket.connect(endpoint)
        socket.send(payload, _NOBLOCK)
        loop.add_reader(descriptor, receive)
        receive()  # the reply may be there before the reader was added
        async with timeout(timeout_seconds):
            frames = await response
    except TimeoutError:
        raise Unreachable(f"did not answer in {timeout_seconds:g} s") from None
    except zmq.ZMQError as error:
        raise Unreachable(f"cannot be reached: {error}") from None
    finally:
        loop.remove_reader(descriptor)
        socket.close(0)
    if len(frames) != 1:
        raise Undecodable(f"answered with {len(frames)} frames instead of one")
    return frames[0]
