"""`POST /api/v1/reports`: authorize, decode and deliver the reports that agents push.

`report_protocol.py` calls `admit` and `handle` directly; all other requests come through ASGI.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import wraps
from typing import ParamSpec, TypeVar

from msgspec.structs import replace

from fleet_smi.config.ip_addresses import remote_address
from fleet_smi.errors import NeedsFullReport
from fleet_smi.hub.refusals import Refusal
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.server.auth import bearer_token
from fleet_smi.server.body_memory import BodyMemory
from fleet_smi.server.http_error import Headers, HttpError
from fleet_smi.server.middleware import AllowedHosts, Message, Receive, Send
from fleet_smi.server.packed_reports import PackedReports
from fleet_smi.server.refusal_limit import CLOSE, RefusalLimiter
from fleet_smi.server.report_batches import ReportBatches
from fleet_smi.server.report_budget import ReportBudget
from fleet_smi.server.report_checks import MAX_LIVE_SECONDS, ReportChecks, ReportSender
from fleet_smi.server.report_decoding import (
    FigureReport,
    decode_body,
    decode_timed,
)
from fleet_smi.server.report_response import (
    BEHIND,
    BUG,
    DISCONNECTED,
    JSON_TYPE,
    NEED_FULL,
    NO_MEMORY,
    OUT_OF_ORDER,
    STARTING,
    TOO_LARGE,
    UNSUPPORTED_MEDIA_TYPE,
    WRONG_METHOD,
    ReportResponse,
)
from fleet_smi.server.services import Services
from fleet_smi.server.work_clock import WorkClock
from fleet_smi.wire.compact import CompactReport, builds_on, merge
from fleet_smi.wire.report import (
    MAX_INLINE_BYTES,
    MAX_REPORT_BYTES,
    encode_receipt,
    sample_age,
)

logger = logging.getLogger(__name__)
_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")
_MSGPACK = b"application/msgpack"
# A report of many snapshots leaves the event loop to others after so many.
_SNAPSHOTS_PER_STEP = 20
_JOIN = "let it join again with the line that `fleet-smi hub join-command` prints"
_REVOKED = (
    "its credential was revoked, or its node was removed",
    f"stop its agent, or {_JOIN} after removing the credential from its agent.state",
)
_UNKNOWN_CREDENTIAL = ("this hub does not know its credential", _JOIN)
_NO_CREDENTIAL = ("it reports without a credential", _JOIN)
_NO_NODE = ("its token is not that of a node", _JOIN)


def _catch_bugs(step: Callable[_Args, _Result]) -> Callable[_Args, _Result | HttpError]:
    """Return an error instead of raising: the protocol calls these steps outside of ASGI."""

    @wraps(step)
    def guarded(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result | HttpError:
        try:
            return step(*args, **kwargs)
        except Exception:  # a bug met by one report must not stop the hub
            logger.exception("bug in %s", ReportHandler.path)
            return BUG

    return guarded


class ReportHandler:
    """Turns a report into a receipt: by `admit` and `handle`, or as an ASGI application."""

    path = "/api/v1/reports"

    def __init__(self, services: Services, hosts: AllowedHosts, refusals: RefusalLimiter) -> None:
        self.refusals = refusals
        self.activity = services.activity
        self._hub = services.hub
        self._push = services.push
        self._access = services.access
        self.credentials = services.credentials
        self._hosts = hosts
        self.body_memory = BodyMemory()
        self._budget = ReportBudget(services.node_budget_seconds, time.monotonic)
        self._work_clock = WorkClock()
        self._checks = ReportChecks(services)
        # One thread: two would only compete for the interpreter.
        self._decoder = ThreadPoolExecutor(1, "decoder")
        self.backpressure = services.backpressure
        self.backpressure.on_wait = services.hub.report_delay.record
        packed = PackedReports(services, self._budget, self.handle)
        self.batches = ReportBatches(packed.handle, self.backpressure)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        peer = (scope.get("client") or ("",))[0]
        sender = self.admit(scope["method"], scope["headers"], peer)
        is_last = False
        if isinstance(sender, HttpError):
            response: ReportResponse | HttpError = sender
        else:
            response, is_last = await self._read_and_handle(receive, sender)
        if self.is_refusal(response):
            address = self.client_address(scope["headers"], peer)
            is_last = await self.refusals.wait(address) or is_last
        headers = [*response.headers, CLOSE] if is_last else response.headers
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _read_and_handle(
        self, receive: Receive, sender: ReportSender
    ) -> tuple[ReportResponse | HttpError, bool]:
        """Return the response, and whether it was made before the end of the body."""
        chunks: list[bytes] = []
        try:
            refusal = await self._read_body(receive, sender, chunks)
            if refusal is not None:
                return refusal, True
            return await self.handle_later(b"".join(chunks), sender), False
        finally:
            self.body_memory.release(sum(map(len, chunks)))

    async def _read_body(
        self, receive: Receive, sender: ReportSender, chunks: list[bytes]
    ) -> HttpError | None:
        """Read a body and charge it as it comes: its size may not have been announced."""
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return DISCONNECTED
            chunk = message.get("body", b"")
            if not self.body_memory.reserve(len(chunk)):
                return NO_MEMORY
            chunks.append(chunk)
            charged, size = max(size, sender.charged_bytes), size + len(chunk)
            if size > MAX_REPORT_BYTES:
                return TOO_LARGE
            refusal = self._budget.charge(sender.identity, max(0, size - charged))
            if refusal is not None:
                return refusal
            more = message.get("more_body", False)
        return None

    @staticmethod
    def is_refusal(response: ReportResponse | HttpError) -> bool:
        """Whether the sender is at fault, and not a hub that cannot take a report now."""
        return 400 <= response.status < 500 and response not in (BEHIND, NEED_FULL)

    def client_address(self, headers: Headers, peer: str) -> str:
        """The address of a sender, also behind a trusted proxy."""
        return self._access.client_address(headers, peer)

    @_catch_bugs
    def admit(self, method: str, headers: Headers, peer: str) -> ReportSender | HttpError:
        """Authorize by the headers alone, before any of the body is read."""
        version = self.credentials.version  # before they are read: they may change meanwhile
        refusal = self._hosts.check(headers)
        if refusal is not None:
            return refusal
        if method != "POST":
            return WRONG_METHOD
        identity = self._access.authenticate(headers, peer, "POST")
        if isinstance(identity, HttpError):
            self._record_refusal(headers, peer)
            return identity
        refusal = self._access.authorize(identity, "report")
        if refusal is not None:
            address = self._access.client_address(headers, peer)
            self._hub.refuse(Refusal(address, *_NO_NODE))
            return refusal
        media_type, size = _media_type_and_size(headers)
        if isinstance(media_type, HttpError):
            return media_type
        refusal = self._budget.admit(identity, size)
        if refusal is not None:
            return refusal
        address = self._access.client_address(headers, peer)
        is_lasting = identity.auth_method in ("token", "open") and identity.expires_at is None
        return ReportSender(
            identity, media_type == JSON_TYPE, address, size, version if is_lasting else None
        )

    @_catch_bugs
    def readmit(self, sender: ReportSender, size: int) -> ReportSender | HttpError | None:
        """Authorize a further report with the same headers; `None` if `admit` has to."""
        if sender.credentials_version != self.credentials.version:
            return None
        self.credentials.record_use(sender.identity)
        return self._budget.admit(sender.identity, size) or sender

    @_catch_bugs
    def handle(self, body: bytes, sender: ReportSender) -> ReportResponse | HttpError:
        """Decode a report, deliver it to the fleet, and return its receipt or the error."""
        if not self._push.is_running:
            return STARTING
        started, row_count = self._work_clock.start(), self._recorded_rows
        try:
            decoded = decode_body(body, is_json=sender.is_json)
            if isinstance(decoded, CompactReport):
                receipt = self._apply_figures(decoded, sender)
                if receipt is not None:
                    return receipt
            report = self._checks.check(decoded, sender)
            if isinstance(report, HttpError):
                return report
            if isinstance(report, FigureReport):
                self._push.receive_figures(
                    report.base, report.figures, report.age_seconds, sender.address
                )
                return self._receipt(report.base)
            self._push.receive(report, sender.address)
            return self._receipt(report.snapshots[-1])
        finally:
            work_seconds = self._work_clock.seconds_since(started)
            rows = self._recorded_rows - row_count
            self._budget.settle(sender.identity, len(body), work_seconds, rows)

    def _apply_figures(
        self, report: CompactReport, sender: ReportSender
    ) -> ReportResponse | HttpError | None:
        """Apply a compact report the short way, and return its receipt; `None` if it needs checks.

        It has nothing to be checked if it is the next live report of the node that its sender has
        the credential of.
        """
        node_id = sender.identity.node_id
        route = None if node_id is None else self._hub.figures.route(node_id)
        latest = None if route is None else route.node.sample
        age_seconds = sample_age(report.sent_at, report.taken_at)
        if (
            route is None
            or latest is None
            or not builds_on(report, latest)
            or age_seconds > MAX_LIVE_SECONDS
            or report.hub != self._hub.receipt_id_of(route.node.node_id)
        ):
            return None
        try:
            figures = merge(latest.figures, report, latest.limits)
        except NeedsFullReport:
            return None
        self._hub.figures.apply(route, figures, age_seconds, remote_address(sender.address))
        return self._receipt(latest.base, node_id)

    async def handle_later(self, body: bytes, sender: ReportSender) -> ReportResponse | HttpError:
        """Handle a report like `handle`, but one that is large without blocking the event loop."""
        if len(body) <= MAX_INLINE_BYTES:
            return self.handle(body, sender)
        try:
            return await self._handle_in_steps(body, sender)
        except Exception:  # a bug met by one report must not stop the hub
            logger.exception("bug in %s", ReportHandler.path)
            return BUG

    async def _handle_in_steps(
        self, body: bytes, sender: ReportSender
    ) -> ReportResponse | HttpError:
        loop = asyncio.get_running_loop()
        decoded, seconds = await loop.run_in_executor(
            self._decoder, decode_timed, body, sender.is_json
        )
        rows = 0
        try:
            report = self._checks.check(decoded, sender)
            if isinstance(report, FigureReport):
                return TOO_LARGE  # none has this many bytes
            if isinstance(report, HttpError):
                return report
            node_id = self._hub.pushed_node_id(report.snapshots[-1])
            receipt_id = self._hub.receipt_id_of(node_id)
            for first in range(0, len(report.snapshots), _SNAPSHOTS_PER_STEP):
                await asyncio.sleep(0)
                if not self._push.is_running:
                    return STARTING
                # The history was full, and is not any more: the first half was not recorded.
                if self._hub.receipt_id_of(node_id) != receipt_id:
                    return OUT_OF_ORDER
                # Sent again, it goes on from here: what was applied is not recorded twice.
                refusal = self._budget.check(sender.identity, len(body), seconds, rows)
                if refusal is not None:
                    return refusal
                started, row_count = time.thread_time(), self._recorded_rows
                some = report.snapshots[first : first + _SNAPSHOTS_PER_STEP]
                self._push.receive(replace(report, snapshots=some), sender.address)
                seconds += time.thread_time() - started
                rows += self._recorded_rows - row_count
            return self._receipt(report.snapshots[-1])
        finally:
            self._budget.settle(sender.identity, len(body), seconds, rows)

    @property
    def _recorded_rows(self) -> int:
        history = self._hub.history
        return 0 if history is None else history.recorded_rows

    def _receipt(
        self, snapshot: Snapshot, node_id: str | None = None
    ) -> ReportResponse | HttpError:
        if node_id is None:
            node_id = self._hub.pushed_node_id(snapshot)
        faults = self._hub.fleet.faults
        if faults and faults.has("report", node_id):
            return BUG
        return ReportResponse(encode_receipt(self._hub.receipt(snapshot, node_id)))

    def _record_refusal(self, headers: Headers, peer: str) -> None:
        """Note who was turned away; a credential that was revoked says which node it is."""
        address, token = self._access.client_address(headers, peer), bearer_token(headers)
        revoked = None if token is None else self.credentials.revoked_node(token)
        if revoked is not None:
            self._hub.refuse(Refusal(address, *_REVOKED, revoked.node_id, revoked.note))
        else:
            cause = _NO_CREDENTIAL if token is None else _UNKNOWN_CREDENTIAL
            self._hub.refuse(Refusal(address, *cause))


def _media_type_and_size(headers: Headers) -> tuple[bytes | HttpError, int]:
    """The media type of the body, or the error if it is too large or unsupported; its size."""
    media_type, size = _MSGPACK, 0  # without a header it is what agents send
    for name, value in headers:
        if name == b"content-type":
            media_type = value.partition(b";")[0].strip().lower()
        elif name == b"content-length":
            size = MAX_REPORT_BYTES + 1 if len(value) > 9 else int(value)
            if size > MAX_REPORT_BYTES:
                return TOO_LARGE, size
        elif name == b"content-encoding":
            return UNSUPPORTED_MEDIA_TYPE, size
    is_supported = media_type in (JSON_TYPE, _MSGPACK)
    return media_type if is_supported else UNSUPPORTED_MEDIA_TYPE, size
