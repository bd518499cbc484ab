"""What those who connect to a small server are granted: few places each, little time to ask."""

import io
import socket
import threading
import time
from collections import Counter
from typing import Any

_QUIET_SECONDS = 30.0
_ASKING_SECONDS = 5.0


class ConnectionLimits:
    """So many at a time, and of one address a quarter of that: the rest is for others."""

    def __init__(self, max_connections: int) -> None:
        self._most = max_connections
        self._most_each = max_connections // 4
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def acquire(self, address: str) -> bool:
        """Whether there was a place for one more from there."""
        with self._lock:
            full = self._taken.total() >= self._most or self._taken[address] >= self._most_each
            if not full:
                self._taken[address] += 1
        return not full

    def release(self, address: str) -> None:
        """One from there has left."""
        with self._lock:
            self._taken -= Counter([address])


class DeadlineSocketReader(io.RawIOBase):
    """What a guest says; a whole question has one deadline, however slowly it comes."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._until = time.monotonic() + _ASKING_SECONDS
        self._quiet = False

    def start_idle_timeout(self) -> None:
        """Who was answered may stay for a while before asking again."""
        self._quiet = True
        self._until = time.monotonic() + _QUIET_SECONDS

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """What comes next; raise `TimeoutError` when the time to say it is over."""
        seconds = self._until - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        self._connection.settimeout(seconds)
        count = self._connection.recv_into(buffer)
        self._connection.settimeout(_ASKING_SECONDS)  # for the answer
        if self._quiet:
            self._quiet = False
            self._until = time.monotonic() + _ASKING_SECONDS
        return count
