"""Requests to the hub through the agent of this machine, to which the kernel names the sender."""

import os
import socket
import stat
import struct

from fleet_smi.client.connection import HubConnection
from fleet_smi.client.http1 import Http1Connection, ProtocolError
from fleet_smi.errors import Refused, Throttled, Undecodable, Unreachable

_OTHERS_MAY_WRITE = 0o022


class AgentConnection(HubConnection):
    """Sends requests to the hub of the agent that listens on a Unix socket.

    The agent forwards few requests: those of the queue and of reservations, and what is free.
    """

    def __init__(self, path: str, *, timeout_seconds: float = 30.0) -> None:
        super().__init__("http://localhost", timeout_seconds=timeout_seconds)
        self.url = "of this machine's agent"
        self._path = path
        self._seconds = timeout_seconds

    def limit_wait(self, seconds: float) -> None:
        """Set the timeout of requests."""
        self._seconds = min(self._seconds, seconds)

    def _connect(self) -> Http1Connection:
        sock = connect(self._path, self._seconds)
        return Http1Connection(sock, "localhost", self._seconds)

    def _translate(self, error: Exception) -> Unreachable | Refused | Undecodable:
        if isinstance(error, TimeoutError):
            return Unreachable(f"the agent at {self._path} did not answer in {self._seconds:g} s")
        if isinstance(error, BrokenPipeError | ConnectionResetError):
            return Throttled(f"the agent at {self._path} has too many requests: try again", 1.0)
        reason = getattr(error, "strerror", None) or error
        kind = Undecodable if isinstance(error, ProtocolError) else Unreachable
        return kind(f"the agent at {self._path} does not answer: {reason}")


def is_listening(path: str) -> bool:
    """Whether an agent listens there, and can be trusted."""
    try:
        connect(path, 2.0).close()
    except OSError:
        return False
    return True


def connect(path: str, timeout_seconds: float) -> socket.socket:
    """Connect to an agent; raise `OSError` also where another user could have taken its place."""
    folder = os.lstat(os.path.dirname(path))
    if not stat.S_ISDIR(folder.st_mode) or folder.st_mode & _OTHERS_MAY_WRITE:
        raise PermissionError(0, "its folder can be changed by others")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # Not `settimeout`: a socket that does not block is turned away where many connect at
        # once, instead of waiting for its turn.
        seconds = max(0.001, timeout_seconds)
        timeout = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
        try:
            sock.connect(path)
        except BlockingIOError:
            raise TimeoutError from None
        sock.settimeout(timeout_seconds)
    except BaseException:
        sock.close()
        raise
    return sock
