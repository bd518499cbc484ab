"""One kept HTTP/1.1 connection, as thin as it can be: a request out, its answer in."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, cast

from fleet_smi.errors import Undecodable

_MOST_BYTES = 1 << 20


class RawResponse(NamedTuple):
    """What came back."""

    status: int
    body: bytes


class RawConnection(asyncio.Protocol):
    """A connection to a hub; `answered` is told each answer, `lost` that it is gone."""

    def __init__(
        self, on_response: Callable[[RawResponse], None], on_lost: Callable[[], None]
    ) -> None:
        self._answered, self._lost = on_response, on_lost
        self._transport: asyncio.Transport | None = None
        self._received = b""

    @property
    def is_open(self) -> bool:
        """Whether somebody is at the other end, as far as is known."""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take in what came; what is no answer ends the connection."""
        self._received = self._received + data if self._received else data
        try:
            answer, self._received = split_response(self._received)
        except Undecodable:
            self.close()
            return
        if answer is not None:
            self._answered(answer)

    def connection_lost(self, error: Exception | None) -> None:
        """End, for whatever reason."""
        self._transport = None
        self._lost()

    def send_request(self, request: bytes) -> None:
        """Send one request; there is no other under way."""
        if self._transport is not None:
            self._transport.write(request)

    def close(self) -> None:
        """Let go of the connection."""
        if self._transport is not None:
            self._transport.abort()


def split_response(data: bytes) -> tuple[RawResponse | None, bytes]:
    """The answer at the front of these bytes, if it is whole, and what comes after it."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        if len(data) > _MOST_BYTES or not b"HTTP/1.".startswith(data[:7]):
            raise Undecodable("what answers there does not speak HTTP")
        return None, data
    length = _content_length(data[:end])
    whole = end + 4 + length
    if len(data) < whole:
        return None, data
    return RawResponse(int(data[9:12]), data[end + 4 : whole]), data[whole:]


def _content_length(head: bytes) -> int:
    if not (head.startswith(b"HTTP/1.") and head[9:12].isdigit()):
        raise Undecodable("what answers there does not speak HTTP")
    lines = head.lower()
    start = lines.find(b"\r\ncontent-length:")
    if start < 0:
        return 0
    value = lines[start + 17 :].partition(b"\r\n")[0].strip()
    if not value.isdigit() or len(value) > 9 or int(value) > _MOST_BYTES:
        raise Undecodable("an answer without an end")
    return int(value)
