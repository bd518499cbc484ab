"""HTTP/1.1 client for polling: one connection, whose server may be broken or hostile.

The parser is that of the hub's own server. A client in Python takes so long for each chunk and
each interim response that a few servers which send nothing else stop the event loop for seconds.
"""

import asyncio
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import httptools

if TYPE_CHECKING:
    from typing_extensions import Self

_MAX_HEAD_BYTES = 64 << 10
_MAX_INTERIM_RESPONSES = 8
_READ_BYTES = 64 << 10
_OK = 200


class InvalidResponse(Exception):
    """The response is not HTTP/1.1, or exceeds a limit."""


class ResponseTooLarge(InvalidResponse):
    """The response has more bytes than it may have."""


class ClosedEarly(InvalidResponse):
    """The connection was closed before the response was complete."""


class LargeResponses:
    """How many responses may be large at the same time, and which size that is."""

    def __init__(self, max_concurrent: int, min_bytes: int) -> None:
        self.min_bytes = min_bytes
        self.slots = asyncio.Semaphore(max_concurrent)


class PollResponse(NamedTuple):
    """An HTTP response; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpConnection:
    """Sends requests to one server, over one connection that is kept open between them."""

    def __init__(self, url: str, tls: ssl.SSLContext | None, large: LargeResponses) -> None:
        parts = urlsplit(url)
        self._host, self._port, self._path = parts.hostname or "", parts.port, parts.path
        self._tls = tls if parts.scheme == "https" else None
        self._host_header = parts.netloc
        self._large = large
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @property
    def peer_address(self) -> str | None:
        """The address of the server, while the connection is open."""
        peer = None if self._streams is None else self._streams[1].get_extra_info("peername")
        return str(peer[0]) if peer else None

    async def request(
        self, method: str, headers: Mapping[str, str], body: bytes | None, max_bytes: int
    ) -> PollResponse:
        """Send a request and return its response; raise `OSError` or `InvalidResponse`.

        The body of a response other than 200 is not read.
        """
        message = self._encode_request(method, headers, body)
        is_reused = self._streams is not None
        try:
            return await self._exchange(message, max_bytes)
        except (ClosedEarly, ConnectionError):
            # The server may have closed an idle connection just when the request was sent.
            if not is_reused:
                raise
        return await self._exchange(message, max_bytes)

    def close(self) -> None:
        """Close the connection at once: a server that does not read must not delay this."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _exchange(self, message: bytes, max_bytes: int) -> PollResponse:
        if self._streams is not None and self._streams[0].at_eof():
            self.close()
        parser = _ResponseParser(max_bytes)
        is_reusable = False
        try:
            if self._streams is None:
                self._streams = await asyncio.open_connection(
                    self._host, self._port, ssl=self._tls, limit=_READ_BYTES
                )
            reader, writer = self._streams
            writer.write(message)
            async with _LargeSlot(self._large) as slot:
                while not parser.is_complete:
                    if parser.body_bytes > self._large.min_bytes:
                        await slot.acquire()
                    parser.feed(await reader.read(_READ_BYTES))
            is_reusable = parser.is_reusable
            return parser.response()
        finally:  # when cancelled by a timeout, too: what comes late answers no later request
            if not is_reusable:
                self.close()
            parser.release()

    def _encode_request(self, method: str, headers: Mapping[str, str], body: bytes | None) -> bytes:
        fields = {"Host": self._host_header, "Accept-Encoding": "identity", **headers}
        if body is not None:
            fields["Content-Length"] = str(len(body))
        lines = [f"{method} {self._path} HTTP/1.1", *(f"{key}: {fields[key]}" for key in fields)]
        # Header injection: a line break in a value would start a header of its own.
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a line break in a header")
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b"")


class _LargeSlot:
    """One of the slots of large responses, taken when it is needed."""

    def __init__(self, large: LargeResponses) -> None:
        self._slots = large.slots
        self._is_held = False

    async def acquire(self) -> None:
        if not self._is_held:
            await self._slots.acquire()
            self._is_held = True

    async def __aenter__(self) -> "Self":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._is_held:
            self._slots.release()


class _ResponseParser:
    """Parses one response as its bytes arrive; its methods `on_…` are called by the parser."""

    def __init__(self, max_bytes: int) -> None:
        self._parser: Any = httptools.HttpResponseParser(self)
        self._max_bytes = max_bytes
        self._received_bytes = 0
        self._interim_responses = 0
        self._headers: dict[str, str] = {}
        self._chunks: list[bytes] = []
        self._is_head_complete = self._keeps_alive = self._has_surplus = False
        self.body_bytes = 0
        self.status = 0
        self.is_complete = False

    @property
    def is_reusable(self) -> bool:
        """Whether the connection can be used for another request."""
        return self._keeps_alive and not self._has_surplus

    @property
    def _has_length(self) -> bool:
        return bool(self._headers.keys() & {"content-length", "transfer-encoding"})

    def feed(self, data: bytes) -> None:
        """Parse what was received; nothing means that the server closed the connection."""
        if not data:
            if not self._is_head_complete or self._has_length:
                raise ClosedEarly("it closed the connection before its answer was complete")
            self.is_complete = True
            return
        self._received_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            raise InvalidResponse("it switched to another protocol") from None
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            raise cause if isinstance(cause, InvalidResponse) else error from None
        except httptools.HttpParserError as error:
            if not self.is_complete:
                raise InvalidResponse(str(error)) from None
            self._has_surplus = True
        # Headers, trailers, and the lengths of chunks: a chunk of one byte has five more.
        overhead = self._received_bytes - self.body_bytes
        if not self.is_complete and overhead > _MAX_HEAD_BYTES + self.body_bytes // 4:
            what = "chunks are too small" if self._is_head_complete else "header is too long"
            raise InvalidResponse(f"its {what}")

    def response(self) -> PollResponse:
        """Return the response, once it is complete."""
        return PollResponse(self.status, self._headers, b"".join(self._chunks))

    def release(self) -> None:
        """Free the memory: parser and callbacks refer to each other, which waits for the gc."""
        self._parser = None
        self._chunks = []

    def on_message_begin(self) -> None:
        # Else it would be taken for the response to the next request.
        self._has_surplus = self.is_complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.is_complete:
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self.is_complete:
            return
        status = self._parser.get_status_code()
        if status >= 200:
            self.status, self._is_head_complete = status, True
            self.is_complete = status != _OK
            return
        # The final response follows an interim one.
        self._headers = {}
        self._interim_responses += 1
        if self._interim_responses > _MAX_INTERIM_RESPONSES:
            raise InvalidResponse("it sends interim responses without end")

    def on_body(self, chunk: bytes) -> None:
        if not self.is_complete:
            self._chunks.append(chunk)
            self.body_bytes += len(chunk)
            if self.body_bytes > self._max_bytes:
                raise ResponseTooLarge

    def on_message_complete(self) -> None:
        if self._is_head_complete and not self.is_complete:
            self.is_complete = True
            self._keeps_alive = bool(self._parser.should_keep_alive())
