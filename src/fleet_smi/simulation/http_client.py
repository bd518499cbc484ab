"""A minimal keep-alive HTTP/1.1 client for load tests: one connection, one request at a time."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, cast

from fleet_smi.errors import Undecodable

_MAX_BYTES = 1 << 20


class RawResponse(NamedTuple):
    """Status and body of a response."""

    status: int
    body: bytes


class RawConnection(asyncio.Protocol):
    """A client connection; calls `on_response` per response and `on_lost` when it closes."""

    def __init__(
        self, on_response: Callable[[RawResponse], None], on_lost: Callable[[], None]
    ) -> None:
        self._on_response, self._on_lost = on_response, on_lost
        self._transport: asyncio.Transport | None = None
        self._received = b""

    @property
    def is_open(self) -> bool:
        """Whether the connection is established."""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; close the connection if they are not HTTP."""
        self._received = self._received + data if self._received else data
        try:
            response, self._received = split_response(self._received)
        except Undecodable:
            self.close()
            return
        if response is not None:
            self._on_response(response)

    def connection_lost(self, error: Exception | None) -> None:
        """Report the loss of the connection."""
        self._transport = None
        self._on_lost()

    def send_request(self, request: bytes) -> None:
        """Send one request; the previous one must have been answered."""
        if self._transport is not None:
            self._transport.write(request)

    def close(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()


def split_response(data: bytes) -> tuple[RawResponse | None, bytes]:
    """Split one complete response off the front of `data`; `None` while it is incomplete.

    Raise `Undecodable` if it is not HTTP.
    """
    end = data.find(b"\r\n\r\n")
    if end < 0:
        # Checked from the first byte on: another protocol may never send an empty line.
        if len(data) > _MAX_BYTES or not b"HTTP/1.".startswith(data[:7]):
            raise Undecodable("the server does not speak HTTP")
        return None, data
    # The status is at a fixed place, in "HTTP/1.1 200".
    length = _content_length(data[:end])
    total = end + 4 + length
    if len(data) < total:
        return None, data
    return RawResponse(int(data[9:12]), data[end + 4 : total]), data[total:]


def _content_length(head: bytes) -> int:
    if not (head.startswith(b"HTTP/1.") and head[9:12].isdigit()):
        raise Undecodable("the server does not speak HTTP")
    lowered = head.lower()
    start = lowered.find(b"\r\ncontent-length:")
    if start < 0:
        return 0
    value = lowered[start + 17 :].partition(b"\r\n")[0].strip()
    if not value.isdigit() or len(value) > 9 or int(value) > _MAX_BYTES:
        raise Undecodable("the response has no valid Content-Length")
    return int(value)
