"""One question and one answer of HTTP/1.1 over a socket: what a hub's clients need, and no more.

`http.client` loads OpenSSL and a mail parser whatever is asked; for an agent that is a third
of its memory and half of what sending a report takes.
"""

import contextlib
import socket
import time
from typing import NamedTuple

_MOST_HEAD_BYTES = 64 << 10
_MOST_DIGITS = 12
_PART = 64 << 10
_HEAD_PART = 4 << 10
"""A head and a receipt fit in: a large buffer costs a small answer more than the answer."""


class ProtocolError(Exception):
    """The other end does not speak HTTP, or says more than is listened to."""


class Response(NamedTuple):
    """What came back; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Http1Connection:
    """Asks over one open socket, again and again; raise `OSError` or `NotHttp` and it is over.

    The time is for a question and all of its answer: one that comes a byte at a time is not
    waited for any longer.
    """

    def __init__(self, sock: socket.socket, host: str, timeout_seconds: float) -> None:
        # A report is small and waited for: it must not sit in the kernel for its next part.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._host = host
        self._timeout_seconds = timeout_seconds
        self._deadline = 0.0
        self._buffer = b""
        self.must_close = False

    def request(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], max_bytes: int
    ) -> Response:
        """The answer to one question, whole; more than `most_bytes` of it is `NotHttp`."""
        self._deadline = time.monotonic() + self._timeout_seconds
        self._send(self._question(method, path, body, headers))
        while True:
            status, told = self._head()
            if status >= 200:
                break
        data = b"" if status in (204, 304) else self._body(told, max_bytes)
        # What nobody asked for would be taken for the next answer.
        self.must_close = "close" in told.get("connection", "").lower() or self._buffer != b""
        return Response(status, told, data)

    def close(self) -> None:
        """Hang up; whoever waits for an answer stops waiting."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _question(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> bytes:
        told = {"Host": self._host, **headers}
        if body is not None:
            told["Content-Length"] = str(len(body))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {told[name]}" for name in told), "", ""]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a line break in a header")
        return "\r\n".join(lines).encode("latin-1") + (body or b"")

    def _head(self) -> tuple[int, dict[str, str]]:
        first, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        status = rest.partition(" ")[0]
        if not (version.startswith("HTTP/1.") and status.isdecimal() and len(status) == 3):
            raise ProtocolError("no HTTP is spoken there")
        pairs = (line.partition(":") for line in lines)
        return int(status), {name.strip().lower(): value.strip() for name, _, value in pairs}

    def _body(self, headers: dict[str, str], most_bytes: int) -> bytes:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._chunks(most_bytes)
        length = headers.get("content-length", "")
        if not length.isdecimal() or len(length) > _MOST_DIGITS or int(length) > most_bytes:
            raise ProtocolError("an answer without an end")
        return self._exactly(int(length))

    def _chunks(self, most_bytes: int) -> bytes:
        parts, size = [], 0
        while length := self._chunk_length():
            size += length
            if size > most_bytes:
                raise ProtocolError("an answer without an end")
            parts.append(self._exactly(length))
            if self._until(b"\r\n"):
                raise ProtocolError("a chunk longer than its length")
        while self._until(b"\r\n"):
            pass  # what is told after the last chunk is of no use
        return b"".join(parts)

    def _chunk_length(self) -> int:
        digits = self._until(b"\r\n").partition(b";")[0].strip()
        if not digits.isalnum() or len(digits) > _MOST_DIGITS:
            raise ProtocolError("a chunk without a length")
        try:
            return int(digits, 16)
        except ValueError:
            raise ProtocolError("a chunk without a length") from None

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            if len(self._buffer) > _MOST_HEAD_BYTES:
                raise ProtocolError("a head without an end")
            self._buffer += self._more(_HEAD_PART)
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        parts, left = [self._buffer[:size]], size - len(self._buffer)
        self._buffer = self._buffer[size:]
        while left > 0:
            parts.append(self._more(left))
            left -= len(parts[-1])
        return b"".join(parts)

    def _send(self, question: bytes) -> None:
        left = memoryview(question)
        while left:
            left = left[self._in_time().send(left) :]

    def _more(self, most: int) -> bytes:
        data = self._in_time().recv(min(most, _PART))
        if not data:
            raise ConnectionResetError("the other end hung up")
        return data

    def _in_time(self) -> socket.socket:
        """The socket, which does not wait longer than there is time."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time is up")
        self._sock.settimeout(left)
        return self._sock
