"""ZeroMQ, where it is installed: sockets with bounds, on the event loop."""

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
from fleet_smi.failure_log import FailureLog

if TYPE_CHECKING:
    import zmq

    Context: TypeAlias = zmq.Context[zmq.Socket[bytes]]
    Socket: TypeAlias = zmq.Socket[bytes]

logger = logging.getLogger(__name__)
_NOBLOCK = 1
_TURN_SECONDS = 0.01
_MOST_WAITING = 100
_QUIET_SECONDS = 60.0


def import_zmq() -> Any:
    """The library; raise `UsageError` with what to do where it is not installed."""
    try:
        import zmq
    except ImportError:
        raise UsageError(
            "cluster-smi is spoken over ZeroMQ, which is not installed: "
            "pip install 'fleet-smi[zmq]'"
        ) from None
    return zmq


@contextmanager
def open_context() -> Iterator["Context"]:
    """Sockets live in it; when it ends, none of them and no thread or descriptor is left."""
    opened = import_zmq().Context()
    try:
        yield opened
    finally:
        opened.destroy(linger=0)


def format_endpoint(host: str, port: int) -> str:
    """An address as ZeroMQ writes it."""
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"


def resolve_bind_endpoint(host: str, port: int, *, open_to_all: bool) -> str:
    """Where a socket can be bound now; raise `UsageError` that says why it cannot.

    Port 0 becomes one that is free. Beyond this machine only where that is wanted.
    """
    import_zmq()
    try:
        found = sockets.getaddrinfo(
            host or None, port, type=sockets.SOCK_STREAM, flags=sockets.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        numeric = str(address[0])
        if not open_to_all and not ip_address(numeric.partition("%")[0]).is_loopback:
            raise UsageError(
                f"cluster-smi knows no password: to listen on {host or 'all addresses'} "
                "say hub.cluster_smi_open = true"
            )
        with sockets.create_server((numeric, port), family=family) as probe:
            return format_endpoint(numeric, probe.getsockname()[1])
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while")[0]  # which Python adds
        raise UsageError(f"cannot listen on {host}:{port}: {why}") from None


def is_local_endpoint(endpoint: str) -> bool:
    """Whether that is a place on this machine."""
    place = urlsplit(endpoint)
    with suppress(OSError):
        for family, kind, _, _, address in sockets.getaddrinfo(place.hostname, 0):
            with suppress(OSError), sockets.socket(family, kind) as probe:
                probe.bind(address)
                return True
    return False


def receive_frames(socket: "Socket") -> list[bytes]:
    """One message; raise the library's `Again` where there is none."""
    return socket.recv_multipart(_NOBLOCK)


def receive_single_frame(socket: "Socket") -> tuple[bytes, str]:
    """One message of one frame and the address of its sender; raise `Undecodable` or `Again`."""
    frame = socket.recv(_NOBLOCK, copy=False)
    if not frame.more:
        return frame.bytes, str(frame.get("Peer-Address"))
    parts = 1 + len(socket.recv_multipart(_NOBLOCK))
    raise Undecodable(f"a message of {parts} parts instead of one")


class BoundSocket:
    """A socket that others connect to; each message is taken in, or dropped and counted."""

    def __init__(self, socket_type: str, endpoint: str, max_bytes: int) -> None:
        self.endpoint = endpoint
        self.dropped = 0
        self._zmq = import_zmq()
        self._kind = socket_type
        self._most_bytes = max_bytes
        self._faults = FailureLog(logger, endpoint)
        self._dropped_at: float | None = None
        self._draining = False
        self._socket: Socket | None = None
        self._take: Callable[[Socket], None]

    async def run(self, handle_next: Callable[["Socket"], None]) -> None:
        """Have `take` read one message after the other, until cancelled.

        It must not wait: where there is none, the library's `Again` ends the round.
        """
        loop = asyncio.get_running_loop()
        with open_context() as opened:
            self._socket, self._draining = self._bound(opened), False
            self._take = handle_next
            descriptor = int(self._socket.getsockopt(self._zmq.FD))
            loop.add_reader(descriptor, self.drain)
            loop.call_soon(self.drain)
            try:
                await asyncio.Event().wait()
            finally:
                loop.remove_reader(descriptor)
                self._socket.close()
                self._socket = None

    def drain(self) -> None:
        """Take what is there, for a moment at a time, so that others have their turns too.

        The descriptor tells of news once: nothing but their end may stop this.
        """
        if not self._draining:
            self._take_some()

    def _take_some(self) -> None:
        self._draining = False
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + _TURN_SECONDS
        while loop.time() < ends_at:
            if self._socket is None:
                return
            try:
                self._take(self._socket)
            except self._zmq.Again:
                return
            except Exception as error:  # noqa: BLE001  # one bad message must not silence the rest
                self._drop(error)
            else:
                if self._dropped_at is not None:
                    self._see_whether_it_is_over(self._dropped_at)
        self._draining = True
        loop.call_soon(self._take_some)

    def send(self, frames: list[bytes]) -> None:
        """Send at once or not at all: a peer that does not read gets nothing."""
        if self._socket is not None:
            # The library learns of what a peer has read when it is asked for its events, and
            # else only now and then: it would drop, unsaid, what there is room for.
            self._socket.getsockopt(self._zmq.EVENTS)
            try:
                self._socket.send_multipart(frames, _NOBLOCK)
            except self._zmq.ZMQError as error:
                self._drop(error)

    def _bound(self, opened: "Context") -> "Socket":
        socket: Socket = opened.socket(getattr(self._zmq, self._kind))
        socket.setsockopt(self._zmq.LINGER, 0)
        socket.setsockopt(self._zmq.MAXMSGSIZE, self._most_bytes)
        socket.setsockopt(self._zmq.IPV6, "[" in self.endpoint)
        socket.setsockopt(self._zmq.RCVHWM, _MOST_WAITING)
        socket.setsockopt(self._zmq.SNDHWM, 2)
        socket.bind(self.endpoint)
        return socket

    def _drop(self, error: Exception) -> None:
        self.dropped += 1
        self._dropped_at = time.monotonic()
        self._faults.record_failure(error)

    def _see_whether_it_is_over(self, dropped_at: float) -> None:
        if time.monotonic() - dropped_at > _QUIET_SECONDS:
            self._dropped_at = None
            self._faults.record_success()


async def request(
    context: "Context", endpoint: str, payload: bytes, *, max_bytes: int, timeout_seconds: float
) -> bytes:
    """The answer to one question; raise `Unreachable` or `Undecodable`.

    Every question has a socket of its own: one that got no answer can ask no more.
    """
    zmq, loop = import_zmq(), asyncio.get_running_loop()
    answer: asyncio.Future[list[bytes]] = loop.create_future()
    socket: Socket = context.socket(zmq.REQ)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, max_bytes)
    socket.setsockopt(zmq.IPV6, "[" in endpoint)

    def look() -> None:
        try:
            frames = socket.recv_multipart(_NOBLOCK)
        except zmq.Again:
            return
        if not answer.done():
            answer.set_result(frames)

    descriptor = int(socket.getsockopt(zmq.FD))
    try:
        socket.connect(endpoint)
        socket.send(payload, _NOBLOCK)
        loop.add_reader(descriptor, look)
        look()
        async with asyncio.timeout(timeout_seconds):
            frames = await answer
    except TimeoutError:
        raise Unreachable(f"did not answer in {timeout_seconds:g} s") from None
    except zmq.ZMQError as error:
        raise Unreachable(f"cannot be asked: {error}") from None
    finally:
        loop.remove_reader(descriptor)
        socket.close(0)
    if len(frames) != 1:
        raise Undecodable(f"answered in {len(frames)} parts instead of one")
    return frames[0]
