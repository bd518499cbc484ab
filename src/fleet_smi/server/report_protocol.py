"""The fast path of reports: an HTTP protocol that answers them without entering ASGI.

For every request uvicorn creates a task, an event and a cycle of awaits, which together cost
as much as decoding a report. A report needs none of them: it is answered as soon as its last
byte arrives. Unusual requests (chunked, pipelined, HTTP/1.0) take the ordinary path.
"""

import asyncio
from math import inf
from typing import Any, NamedTuple

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from fleet_smi.server.head_limit import HeadLimitProtocol
from fleet_smi.server.http_error import HttpError
from fleet_smi.server.refusal_limit import CLOSE, HeldAnswer
from fleet_smi.server.repeated_head import RepeatedHead
from fleet_smi.server.report_batches import may_wait
from fleet_smi.server.report_checks import NOBODY, ReportSender
from fleet_smi.server.report_handler import ReportHandler
from fleet_smi.server.report_response import (
    NO_MEMORY,
    ReportResponse,
    encode_head,
    encode_receipt_response,
)
from fleet_smi.server.timeouts import IDLE_TIMEOUT_SECONDS
from fleet_smi.wire.packed import PREFIX_BYTES
from fleet_smi.wire.report import MAX_INLINE_BYTES

_URL = ReportHandler.path.encode()
_REQUEST_START = b"POST %b " % _URL
_NOT_HTTP = HttpError(400, "not_http", "this is not an HTTP request")


class _Repeated(NamedTuple):
    """The head of the last report and its sender, who will most likely send it again."""

    head: RepeatedHead
    sender: ReportSender


class ReportProtocol(HeadLimitProtocol):
    """HTTP with a fast path to the `report_handler` of the application, if it has one."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reports: ReportHandler | None = getattr(self.app, "report_handler", None)
        self._sender: ReportSender | HttpError | None = None
        self._body: list[bytes] = []
        self._deferred: list[bytes] = []
        self._handling: asyncio.Task[ReportResponse | HttpError] | None = None
        self._held: HeldAnswer | None = None
        self._reserved_bytes = 0
        self._is_between_requests = True
        self._is_waiting = False
        self._repeated: _Repeated | None = None
        # A packed report that is expected next: its first bytes, of head and body, and its size.
        self._expected, self._expected_bytes, self._head_size = b"", -1, 0
        self._expected_version: int | None = None
        # Of a report that waits for others.
        self.body, self.sender, self.node_id, self.charged = b"", NOBODY, "", False

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget an answer that is held."""
        if self._reports is not None:
            self._reports.activity.closed_connections += 1
        if self._held is not None and self._reports is not None:
            self._held.timer.cancel()
            self._reports.refusals.release(self._held.address)
        if self._handling is None:
            self._release_body()
        super().connection_lost(exc)
        # It refers back to this protocol: without it, both are freed at once.
        self.cycle = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, or defer them while there are too many reports."""
        reports = self._reports
        if (
            len(data) == self._expected_bytes
            and not self._is_waiting
            and reports is not None
            and self._expected_version == reports.credentials.version
            and data.startswith(self._expected)
        ):
            # What nearly all reports are.
            self.body, self.charged = data[self._head_size :], False
            if reports.batches.try_add(self):
                self._is_waiting = True
                return
        # Decided by the first bytes, before parsing: a report that waits has cost nothing yet.
        backpressure = None if self._reports is None else self._reports.backpressure
        if self._held is not None:
            return  # its answer is the last
        if self._is_waiting and self._reports is not None:
            self._reports.batches.flush()  # the next request must not overtake the response
        if self._deferred:
            # More of a report that waits: stop reading, so that the sender's own buffer fills.
            self.transport.pause_reading()
            self._deferred.append(data)
        elif (
            backpressure is None
            or not data.startswith(_REQUEST_START)
            or backpressure.has_capacity()
        ):
            self._receive(data)
        else:
            # Reading continues: most reports come in one piece, and to pause and resume would
            # cost two system calls for each.
            self._deferred.append(data)
            self._expected_bytes = -1  # the next must not overtake it
            backpressure.defer(self._resume)

    def _resume(self) -> None:
        deferred, self._deferred = self._deferred, []
        if self.transport.is_closing():
            return
        if len(deferred) > 1:  # only then reading was paused
            self.transport.resume_reading()
        # Not through `data_received`: what has waited must not be deferred again.
        for data in deferred:
            self._receive(data)

    def _receive(self, data: bytes) -> None:
        is_start = self._is_between_requests
        if is_start and self._answer_repeated(data):
            return
        super().data_received(data)
        # Not what ends here and began before: the bytes of a body can look like a request.
        if is_start and self._is_between_requests and isinstance(self._sender, ReportSender):
            self._remember(data, self._sender)

    def _remember(self, data: bytes, sender: ReportSender) -> None:
        """Remember the head of a report that was all of the received bytes."""
        if sender.credentials_version is not None:
            head = RepeatedHead.of(data, sender.charged_bytes)
            self._repeated = None if head is None else _Repeated(head, sender)

    def _answer_repeated(self, data: bytes) -> bool:
        """Answer a report without parsing its head, if that is the same as the one before."""
        if self._repeated is None or self._reports is None or self.flow.write_paused:
            return False
        body = self._repeated.head.body_of(data)
        if body is None or len(body) > MAX_INLINE_BYTES:
            return False
        sender = self._reports.readmit(self._repeated.sender, len(body))
        if sender is None:
            return False
        if isinstance(sender, HttpError):
            self.respond(sender)
        else:
            self._expect(data, body)
            self._handle(self._reports, body, sender)
        return True

    def _expect(self, data: bytes, body: bytes) -> None:
        """Expect that the next report is a packed one of the same head and size."""
        if self._repeated is not None and may_wait(body, self._repeated.sender):
            self._head_size, self._expected_bytes = len(data) - len(body), len(data)
            self._expected = data[: self._head_size + PREFIX_BYTES]
            self._expected_version = self._repeated.sender.credentials_version

    def pause_writing(self) -> None:
        """Leave the next request to the ordinary way, which looks whether responses are read."""
        self._expected_bytes = -1
        super().pause_writing()

    def _handle(self, reports: ReportHandler, body: bytes, sender: ReportSender) -> None:
        """Handle a report: at once, or together with others that come within a moment."""
        if may_wait(body, sender):
            self.body, self.sender, self.charged = body, sender, True
            self.node_id = sender.identity.node_id or ""
            self._is_waiting = True
            reports.batches.add(self)
        else:
            self.respond(reports.handle(body, sender))

    def respond(self, response: ReportResponse | HttpError) -> None:
        """Respond to a report that was handled."""
        self._is_waiting = False
        if self.transport.is_closing():
            return
        self._respond(response)
        if self._held is None:
            self.start_idle_timeout()

    def acknowledge(self, receipt: bytes, now: float) -> None:
        """Respond with a receipt that is encoded already; `now` is the time of the event loop."""
        self._is_waiting = False
        if not self.transport.is_closing():
            self.transport.write(receipt)
            self._deadline = now + IDLE_TIMEOUT_SECONDS

    def on_message_begin(self) -> None:
        """Start a request; the ASGI scope is built later, and only if the app is called."""
        self.count_request()
        self._is_between_requests, self._repeated, self._expected_bytes = False, None, -1
        if self._is_waiting and self._reports is not None:
            self._reports.batches.flush()  # its answer would overtake that of the one before
        if self._held is not None:
            return
        self.url, self.headers, self.expect_100_continue = b"", [], False
        if self._handling is not None:
            # Pipelined behind a large report: its answer would overtake that one's.
            self.transport.close()
        self.start_request_timeout()

    def on_headers_complete(self) -> None:
        """Authorize a report by its headers, or pass the request on to the app."""
        self.end_head()
        if self._held is not None:
            return
        self._sender = None
        if self.url != _URL or self._reports is None or not self._can_take_fast_path():
            self._call_app()
            return
        method = self.parser.get_method().decode("ascii")
        self._sender = self._reports.admit(method, self.headers, self._peer)
        if isinstance(self._sender, ReportSender):
            self._sender = self._reserve_body(self._sender)
        if isinstance(self._sender, HttpError):
            # Before the body has arrived; the rest is discarded and the connection stays usable.
            self._respond(self._sender)

    def on_body(self, body: bytes) -> None:
        """Collect the body of a report; that of a request already answered is discarded."""
        if isinstance(self._sender, ReportSender):
            self._body.append(body)
        elif self._sender is not None or self.cycle.response_complete:
            self._discard(body)
        else:
            super().on_body(body)

    def _discard(self, body: bytes) -> None:
        """Drop a part of a body that nobody reads; close the connection if there are too many."""
        if self._reports is not None:
            address = self._reports.client_address(self.headers, self._peer)
            if not self._reports.refusals.may_discard(address, len(body)):
                self.transport.close()

    def on_message_complete(self) -> None:
        """Handle the report and write its receipt."""
        if self._sender is None or self._reports is None:
            super().on_message_complete()
            return
        self.start_head()
        if isinstance(self._sender, ReportSender):
            body, self._body = b"".join(self._body), []
            if len(body) > MAX_INLINE_BYTES:
                self._handle_later(self._reports, body, self._sender)
                return
            self._release_body()
            self._is_between_requests = True
            self._handle(self._reports, body, self._sender)
        elif self._held is None:
            self._is_between_requests = True
            self.start_idle_timeout()

    @property
    def _peer(self) -> str:
        return "" if self.client is None else self.client[0]

    def _respond(self, response: ReportResponse | HttpError) -> None:
        """Write a response; that of an address that is refused too often later, and as the last."""
        if isinstance(response, HttpError) and self._reports is not None:
            address = self._reports.client_address(self.headers, self._peer)
            is_refusal = self._reports.is_refusal(response)
            seconds = self._reports.refusals.hold(address) if is_refusal else None
            if seconds is not None:
                self._hold(seconds, response, address)
                return
        self.transport.write(_encode_response(response))

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP and close; counted like any other refused request."""
        if self._held is not None:
            return
        seconds = None if self._reports is None else self._reports.refusals.hold(self._peer)
        if seconds is None:
            super().send_400_response(msg)
        else:
            self._hold(seconds, _NOT_HTTP, self._peer)

    def _hold(self, seconds: float, response: ReportResponse | HttpError, address: str) -> None:
        self._deadline, self._expected_bytes = inf, -1
        self.transport.pause_reading()
        timer = self.loop.call_later(seconds, self._close_refused, response)
        self._held = HeldAnswer(timer, address)

    def _close_refused(self, response: ReportResponse | HttpError) -> None:
        if not self.transport.is_closing():
            self.transport.write(_encode_response(response, CLOSE))
            self.transport.close()

    def _reserve_body(self, sender: ReportSender) -> ReportSender | HttpError:
        if self._reports is not None:
            if not self._reports.body_memory.reserve(sender.charged_bytes):
                return NO_MEMORY
            self._reserved_bytes = sender.charged_bytes
        return sender

    def _release_body(self) -> None:
        if self._reports is not None:
            self._reports.body_memory.release(self._reserved_bytes)
            self._reserved_bytes = 0

    def _handle_later(self, reports: ReportHandler, body: bytes, sender: ReportSender) -> None:
        """Answer a large report when it is handled; read nothing more until then."""
        self._deadline = inf
        self.table.set_busy(self)
        self.transport.pause_reading()
        self._handling = self.loop.create_task(reports.handle_later(body, sender))
        self._handling.add_done_callback(self._write_receipt)

    def _write_receipt(self, handled: asyncio.Task[ReportResponse | HttpError]) -> None:
        self._handling = None
        self._release_body()
        if self.transport.is_closing() or handled.cancelled():
            return
        self._respond(handled.result())
        if self._held is None:
            self.start_idle_timeout()
            self.transport.resume_reading()

    def _call_app(self) -> None:
        """Replay the parsed head into uvicorn, which `on_message_begin` has skipped."""
        url, headers, expecting = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expecting
        # In place: the scope that uvicorn has just built refers to this very list.
        self.headers += headers
        super().on_headers_complete()

    def _can_take_fast_path(self) -> bool:
        """Whether no other response is pending, and the request has a length and keeps alive."""
        cycle: RequestResponseCycle | None = self.cycle
        if self.flow.write_paused or (cycle is not None and not cycle.response_complete):
            return False
        if self.expect_100_continue or b"content-length" not in dict(self.headers):
            return False
        return self.parser.should_keep_alive() and self.parser.get_http_version() == "1.1"


def _encode_response(response: ReportResponse | HttpError, *more: tuple[bytes, bytes]) -> bytes:
    if isinstance(response, ReportResponse) and not more:
        return encode_receipt_response(response.body)
    return encode_head(response.status, [*response.headers, *more]) + response.body
