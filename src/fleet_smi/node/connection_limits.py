"""Connection limits and timeouts of the agent's HTTP server, against slow clients and floods."""

import io
import socket
import threading
import time
from collections import Counter
from typing import Any

_IDLE_SECONDS = 30.0
_REQUEST_SECONDS = 5.0


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
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._deadline = time.monotonic() + _REQUEST_SECONDS
        self._idle = False

    def start_idle_timeout(self) -> None:
        """Allow the keep-alive time until the next request begins."""
        self._idle = True
        self._deadline = time.monotonic() + _IDLE_SECONDS

    def readable(self) -> bool:
        """True, as `io.BufferedReader` requires."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read what the client sent; raise `TimeoutError` at the deadline."""
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        self._connection.settimeout(seconds)
        count = self._connection.recv_into(buffer)
        # For the response: a client that does not read it must not hold its slot either.
        self._connection.settimeout(_REQUEST_SECONDS)
        # The first byte of the next request ends the keep-alive time.
        if self._idle:
            self._idle = False
            self._deadline = time.monotonic() + _REQUEST_SECONDS
        return count
