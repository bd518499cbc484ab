"""Limit of the request head: a connection is closed when the bytes before a body are too many.

uvicorn and its parser collect a request line and headers without any limit, and before anybody
is authenticated.
"""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from fleet_smi.server.connection_limit import ConnectionLimitProtocol
from fleet_smi.server.http_error import HttpError

MAX_HEAD_BYTES = 64 << 10
MAX_PIPELINED = 8
"""Requests that a client may send ahead of their responses. No client of the hub does; without a
limit one connection fills the memory with them, or keeps the event loop from all others."""
_TOO_LARGE = HttpError(
    431, "head_too_large", f"the request line and headers exceed {MAX_HEAD_BYTES >> 10} KiB"
)
_BODY_HEADERS = (b"content-length", b"transfer-encoding")


class HeadLimitProtocol(ConnectionLimitProtocol):
    """uvicorn's HTTP protocol with limits on what precedes the body of a request.

    Also counted are line breaks between requests, which the parser skips without a callback.
    """

    _in_head = True
    _head_bytes = 0
    _has_boundary = False
    _requests_received = 0

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, in parts that cannot exceed the limit."""
        self._requests_received = 0
        if len(data) <= MAX_HEAD_BYTES - self._head_bytes:
            self._parse(data)
            return
        while data and not self.transport.is_closing():
            size = MAX_HEAD_BYTES - (self._head_bytes if self._in_head else 0)
            part, data = data[:size], data[size:]
            self._parse(part)

    def count_request(self) -> None:
        """Count a request that begins; too many at once are an error of the parser's callback."""
        self._requests_received += 1
        if max(self._requests_received, len(self.pipeline)) > MAX_PIPELINED:
            raise ValueError("too many pipelined requests")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; those after a chunked body (trailers) are discarded."""
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The body follows, which has limits of its own."""
        self.end_head()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """The head of the next request follows."""
        self.start_head()
        super().on_message_complete()

    def start_head(self) -> None:
        """Count the bytes from here on as those of a head."""
        self._in_head = self._has_boundary = True
        self._head_bytes = 0

    def end_head(self) -> None:
        """Stop counting, and refuse a body that the parser would take for the next request.

        It skips the body of a request that asks for another protocol (`Upgrade`, `CONNECT`).
        """
        self._in_head = False
        if self.parser.should_upgrade() and any(name in _BODY_HEADERS for name, _ in self.headers):
            raise ValueError("a body after a request for another protocol")

    def _parse(self, data: bytes) -> None:
        self._has_boundary = False
        super().data_received(data)
        # Where one request ends and the next begins in these bytes is not known: they are not
        # counted, so a pipelined head can have up to twice the limit.
        if self._in_head and not self._has_boundary:
            self._head_bytes += len(data)
            if self._head_bytes >= MAX_HEAD_BYTES:
                self._refuse()

    def _refuse(self) -> None:
        # Not while the response to an earlier request is pending: it would be taken for that.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete:
            fields = [*_TOO_LARGE.headers, (b"connection", b"close")]
            head = b"".join([b"%b: %b\r\n" % field for field in fields])
            self.transport.write(b"%b%b\r\n%b" % (STATUS_LINE[431], head, _TOO_LARGE.body))
        self.transport.close()
