"""Connection limits and timeouts of the agent's HTTP server, against slow clients and floods."""

import io
import socket
import threading
import time
from collections import Counter
from http.client import HTTPException
from typing import Any

_IDLE_SECONDS = 30.0
_REQUEST_SECONDS = 5.0
MAX_HEAD_BYTES = 64 << 10


class HeadTooLarge(HTTPException):
    """The request line and headers exceed the limit; `http.server` answers it with status 431."""


class ConnectionLimits:
    """Bounds open connections; one address gets at most a quarter of them."""

    def __init__(self, max_connections: int) -> None:
        self._max = max_connections
        self._max_per_address = max_connections // 4
        self._open: Counter[str] = Counter()
        self._lock = threading.Lock()

    def acquire(self, address: str) -> bool:
        """Take a slot for one more connection; return whether there was one."""
        with self._lock:
            full = self._open.total() >= self._max or self._open[address] >= self._max_per_address
            if not full:
                self._open[address] += 1
        return not full

    def release(self, address: str) -> None:
        """Return the slot of a closed connection."""
        with self._lock:
            # `-=` removes counts of zero, so the counter does not grow by every address seen.
            self._open -= Counter([address])


class DeadlineSocketReader(io.RawIOBase):
    """Reads requests from a socket; a whole request has one deadline, however slowly it comes.

    A timeout per read would let a client hold a slot for ever, one byte at a time (slowloris).
    The bytes before the body are limited: `http.server` alone would accept 6 MiB of headers.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + _REQUEST_SECONDS
        self._idle = False
        self._head_bytes_left: int | None = MAX_HEAD_BYTES

    def start_idle_timeout(self) -> None:
        """Allow the keep-alive time until the next request begins."""
        self._idle = True
        self._deadline = time.monotonic() + _IDLE_SECONDS
        self._head_bytes_left = MAX_HEAD_BYTES

    def end_head(self) -> None:
        """Stop counting: what follows is the body, which has a limit of its own."""
        self._head_bytes_left = None

    def readable(self) -> bool:
        """True, as `io.BufferedReader` requires."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what the client sent; raise `TimeoutError` at the deadline, or `HeadTooLarge`."""
        if self._head_bytes_left == 0:
            raise HeadTooLarge("the request line and headers are too large")
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        self._connection.settimeout(seconds)
        # Without a limit 0, which stands for the whole buffer.
        count = self._connection.recv_into(buffer, min(len(buffer), self._head_bytes_left or 0))
        if self._head_bytes_left is not None:
            self._head_bytes_left -= count
        # For the response: a client that does not read it must not hold its slot either.
        self._connection.settimeout(_REQUEST_SECONDS)
        # The first byte of the next request ends the keep-alive time.
        if self._idle:
            self._idle = False
            self._deadline = time.monotonic() + _REQUEST_SECONDS
        return count
