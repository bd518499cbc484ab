"""A minimal HTTP/1.1 client over one socket, with a deadline for each request.

`http.client` loads OpenSSL and an e-mail parser in any case; for an agent that is a third of
its memory, and half of the time of sending a report.
"""

import contextlib
import socket
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

_MAX_HEAD_BYTES = 64 << 10
_MAX_DIGITS = 12  # of a length, before it is converted to a number
_BODY_READ_BYTES = 64 << 10
# Enough for the head and a receipt: allocating more would cost more than a small response.
_HEAD_READ_BYTES = 4 << 10
# On, with no time to wait: closing discards what is not sent yet. As two integers of C.
_LINGER_NOT = b"\1\0\0\0\0\0\0\0" if sys.byteorder == "little" else b"\0\0\0\1\0\0\0\0"


class ProtocolError(Exception):
    """The response is not HTTP/1.1, or exceeds a limit."""


class Response(NamedTuple):
    """An HTTP response; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Http1Connection:
    """Sends requests over one open socket; unusable once it raised `OSError` or `ProtocolError`.

    The timeout is for a request and its whole response: a server that sends one byte at a time
    does not extend it.
    """

    def __init__(self, sock: socket.socket, host: str, timeout_seconds: float) -> None:
        if sock.family != socket.AF_UNIX:
            # No Nagle algorithm: a report is small, and would wait in the kernel for more data.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._host = host
        self._timeout_seconds = timeout_seconds
        self._deadline = 0.0
        self._buffer = b""
        # The last heads, which an agent sends and receives again with each report.
        self._sent_head: tuple[tuple[str, str, dict[str, str]], bytes] | None = None
        self._received_head: tuple[bytes, tuple[int, dict[str, str]]] | None = None
        self._is_awaiting = False
        self.must_close = False

    def request(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str], max_bytes: int
    ) -> Response:
        """Send a request and read its response; a body over `max_bytes` is a `ProtocolError`."""
        self._deadline = time.monotonic() + self._timeout_seconds
        self._is_awaiting = True
        self._send(self._encode_request(method, path, body, headers))
        while True:
            status, response_headers = self._read_head()
            if status >= 200:  # 1xx is interim, and the response follows
                break
        data = b"" if status in (204, 304) else self._read_body(response_headers, max_bytes)
        # Surplus bytes would be taken for the response to the next request.
        wants_close = "close" in response_headers.get("connection", "").lower()
        self.must_close = wants_close or self._buffer != b""
        self._is_awaiting = False
        return Response(status, response_headers, data)

    def open_stream(self, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str]]:
        """Send a GET whose body has no end; return the status and the headers of the response."""
        self._deadline = time.monotonic() + self._timeout_seconds
        self._send(self._encode_request("GET", path, None, headers))
        return self._read_head()

    def iterate_chunks(self, max_bytes: int) -> Iterator[bytes]:
        """Yield the chunks of that body; each may take as long as the timeout."""
        while True:
            self._deadline = time.monotonic() + self._timeout_seconds
            length = self._read_chunk_length()
            if not length:
                return
            if length > max_bytes:
                raise ProtocolError("a chunk is too large")
            chunk = self._read_exactly(length)
            if self._read_until(b"\r\n"):
                raise ProtocolError("a chunk longer than its length")
            yield chunk

    def close(self) -> None:
        """Close the socket; a thread that waits for a response is woken by the shutdown."""
        with contextlib.suppress(OSError):
            if self._is_awaiting:
                # Else the kernel goes on sending the request after a cut of the network, and a hub
                # takes a report of minutes ago for one that is just now.
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
            self._sock.shutdown(socket.SHUT_RDWR)
        self._sock.close()

    def _encode_request(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> bytes:
        request = method, path, headers
        if self._sent_head is None or self._sent_head[0] != request:
            self._sent_head = request, self._encode_head(*request)
        if body is None:
            return self._sent_head[1] + b"\r\n"
        return b"%bContent-Length: %d\r\n\r\n%b" % (self._sent_head[1], len(body), body)

    def _encode_head(self, method: str, path: str, headers: dict[str, str]) -> bytes:
        fields = {"Host": self._host, **headers}
        header_lines = [f"{name}: {value}" for name, value in fields.items()]
        lines = [f"{method} {path} HTTP/1.1", *header_lines, ""]
        # Header injection: a line break in a value would start a header of its own.
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a line break in a header")
        return "\r\n".join(lines).encode("latin-1")

    def _read_head(self) -> tuple[int, dict[str, str]]:
        head = self._read_until(b"\r\n\r\n")
        if self._received_head is None or self._received_head[0] != head:
            self._received_head = head, _parse_head(head)
        return self._received_head[1]

    def _read_body(self, headers: dict[str, str], max_bytes: int) -> bytes:
        if "chunked" in headers.get("transfer-encoding", "").lower():
            return self._read_chunks(max_bytes)
        length = headers.get("content-length", "")
        if not length.isdecimal() or len(length) > _MAX_DIGITS or int(length) > max_bytes:
            raise ProtocolError("the response is too large or has no length")
        return self._read_exactly(int(length))

    def _read_chunks(self, max_bytes: int) -> bytes:
        chunks, size = [], 0
        while length := self._read_chunk_length():
            size += length
            if size > max_bytes:
                raise ProtocolError("the response is too large")
            chunks.append(self._read_exactly(length))
            if self._read_until(b"\r\n"):
                raise ProtocolError("a chunk longer than its length")
        while self._read_until(b"\r\n"):
            pass  # trailers after the last chunk are ignored
        return b"".join(chunks)

    def _read_chunk_length(self) -> int:
        digits = self._read_until(b"\r\n").partition(b";")[0].strip()
        # Checked first: `int` would also accept a sign and underscores.
        if not digits.isalnum() or len(digits) > _MAX_DIGITS:
            raise ProtocolError("a chunk without a length")
        try:
            return int(digits, 16)
        except ValueError:
            raise ProtocolError("a chunk without a length") from None

    def _read_until(self, separator: bytes) -> bytes:
        while separator not in self._buffer:
            if len(self._buffer) > _MAX_HEAD_BYTES:
                raise ProtocolError("the header is too long")
            self._buffer += self._receive(_HEAD_READ_BYTES)
        data, _, self._buffer = self._buffer.partition(separator)
        return data

    def _read_exactly(self, size: int) -> bytes:
        chunks, left = [self._buffer[:size]], size - len(self._buffer)
        self._buffer = self._buffer[size:]
        while left > 0:
            chunks.append(self._receive(left))
            left -= len(chunks[-1])
        return b"".join(chunks)

    def _send(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[self._socket_with_timeout().send(left) :]

    def _receive(self, max_bytes: int) -> bytes:
        data = self._socket_with_timeout().recv(min(max_bytes, _BODY_READ_BYTES))
        if not data:
            raise ConnectionResetError("the connection was closed")
        return data

    def _socket_with_timeout(self) -> socket.socket:
        """The socket, with the time that is left as its timeout."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request timed out")
        self._sock.settimeout(left)
        return self._sock


def _parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest.partition(" ")[0]
    if not (version.startswith("HTTP/1.") and status.isdecimal() and len(status) == 3):
        raise ProtocolError("the response is not HTTP")
    pairs = (line.partition(":") for line in lines)
    return int(status), {name.strip().lower(): value.strip() for name, _, value in pairs}
