"""Reports answered by the protocol itself, as their last byte comes: the hub's hot path.

For every request uvicorn makes a task, an event and a cycle of awaits. A report needs none of
it, and all that costs as much as to read one. What is out of the ordinary (sent in chunks, in
a hurry after another request, by an old client) goes the usual way through the app.
"""

from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from fleet_smi.server.http_error import HttpError
from fleet_smi.server.report_handler import ReportHandler, ReportResponse, ReportSender
from fleet_smi.server.timeouts import TimeoutProtocol

_URL = ReportHandler.path.encode()
_BEGINNING = b"POST %b " % _URL


class ReportProtocol(TimeoutProtocol):
    """Speaks HTTP; reports are for the `reports` of its app, if it has them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reports: ReportHandler | None = getattr(self.app, "reports", None)
        self._sender: ReportSender | HttpError | None = None
        self._body: list[bytes] = []
        self._in_line: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        """Something has come; a report waits while there are too many of them."""
        rush = None if self._reports is None else self._reports.backpressure
        if self._in_line:
            self.transport.pause_reading()
            self._in_line.append(data)
        elif rush is None or not data.startswith(_BEGINNING) or rush.has_capacity():
            super().data_received(data)
        else:
            self._in_line.append(data)
            rush.defer(self._go_on)

    def _go_on(self) -> None:
        waiting, self._in_line = self._in_line, []
        if self.transport.is_closing():
            return
        if len(waiting) > 1:
            self.transport.resume_reading()
        for data in waiting:
            super().data_received(data)

    def on_message_begin(self) -> None:
        """A request begins: what an app needs to know of it is put together only for the app."""
        self.url, self.headers, self.expect_100_continue = b"", [], False
        self.start_request_timeout()

    def on_headers_complete(self) -> None:
        """The head is there: whose report is it, if it is one?"""
        self._sender = None
        if self.url != _URL or self._reports is None or not self._is_ordinary():
            self._ask_the_app()
            return
        method = self.parser.get_method().decode("ascii")
        peer = "" if self.client is None else self.client[0]
        self._sender = self._reports.admit(method, self.headers, peer)
        if isinstance(self._sender, HttpError):
            self.transport.write(_encoded(self._sender))

    def on_body(self, body: bytes) -> None:
        """A part of the body; that of a refused report is not kept."""
        if self._sender is None:
            super().on_body(body)
        elif isinstance(self._sender, ReportSender):
            self._body.append(body)

    def on_message_complete(self) -> None:
        """All of it is there."""
        if self._sender is None or self._reports is None:
            super().on_message_complete()
            return
        if isinstance(self._sender, ReportSender):
            body, self._body = b"".join(self._body), []
            self.transport.write(_encoded(self._reports.handle(body, self._sender)))
        self.start_idle_timeout()

    def _ask_the_app(self) -> None:
        url, headers, expecting = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expecting
        self.headers += headers  # which is in the scope already
        super().on_headers_complete()

    def _is_ordinary(self) -> bool:
        """Whether nothing is under way here, and the client tells how much it sends and stays."""
        cycle: RequestResponseCycle | None = self.cycle
        if self.flow.write_paused or (cycle is not None and not cycle.response_complete):
            return False
        if self.expect_100_continue or b"content-length" not in dict(self.headers):
            return False
        return self.parser.should_keep_alive() and self.parser.get_http_version() == "1.1"


def _encoded(answer: ReportResponse | HttpError) -> bytes:
    head = b"".join([b"%b: %b\r\n" % header for header in answer.headers])
    return b"%b%b\r\n%b" % (STATUS_LINE[answer.status], head, answer.body)
