"""`POST /api/v1/reports`: authorize, decode and deliver the reports that agents push.

`report_protocol.py` calls `admit` and `handle` directly; all other requests come through ASGI.
"""

import logging
from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, ParamSpec, TypeVar

from fleet_smi.errors import DeliveryError, UnsupportedVersion
from fleet_smi.hub.credentials import Identity
from fleet_smi.server.backpressure import Backpressure
from fleet_smi.server.http_error import Headers, HttpError
from fleet_smi.server.middleware import AllowedHosts, Message, Receive, Send
from fleet_smi.server.services import Services
from fleet_smi.wire.report import MAX_REPORT_BYTES, decode_report, encode_receipt

logger = logging.getLogger(__name__)
_Args = ParamSpec("_Args")
_Result = TypeVar("_Result")
_JSON, _MSGPACK = b"application/json", b"application/msgpack"
_TOO_LARGE = HttpError(413, "too_large", f"the report exceeds {MAX_REPORT_BYTES >> 20} MiB")
_WRONG_METHOD = HttpError(405, "wrong_method", "reports are sent by POST", allow="POST")
_UNSUPPORTED_MEDIA_TYPE = HttpError(
    415, "wrong_kind", "send application/msgpack or application/json, uncompressed"
)
_DISCONNECTED = HttpError(400, "cut_short", "the connection ended before the report did")
# Not 500, after which an agent retries: the same report would run into the same bug again.
_BUG = HttpError(422, "bug", "this report triggers a bug in fleet-smi: see the log of the hub")
_STARTING = HttpError(503, "not_ready", "the hub is starting or stopping: retry", 1)


class ReportSender(NamedTuple):
    """The sender of a report, and its encoding."""

    identity: Identity
    is_json: bool


class ReportResponse(NamedTuple):
    """An encoded receipt, with the same attributes as an `HttpError`."""

    body: bytes
    status: int = 200

    @property
    def headers(self) -> Headers:
        """The headers that belong to the body."""
        return [
            (b"content-type", _JSON),
            (b"content-length", b"%d" % len(self.body)),
            # The other security headers concern pages; this response is never shown as one.
            (b"x-content-type-options", b"nosniff"),
        ]


def _catch_bugs(step: Callable[_Args, _Result]) -> Callable[_Args, _Result | HttpError]:
    """Return an error instead of raising: the protocol calls these steps outside of ASGI."""

    @wraps(step)
    def guarded(*args: _Args.args, **kwargs: _Args.kwargs) -> _Result | HttpError:
        try:
            return step(*args, **kwargs)
        except Exception:  # a bug met by one report must not stop the hub
            logger.exception("bug in %s", ReportHandler.path)
            return _BUG

    return guarded


class ReportHandler:
    """Turns a report into a receipt: by `admit` and `handle`, or as an ASGI application."""

    path = "/api/v1/reports"

    def __init__(self, services: Services, hosts: AllowedHosts) -> None:
        self._hub = services.hub
        self._push = services.push
        self._access = services.access
        self._hosts = hosts
        self.backpressure = Backpressure()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        response = await self._respond(scope, receive)
        start = {"status": response.status, "headers": response.headers}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": response.body})

    async def _respond(self, scope: Message, receive: Receive) -> ReportResponse | HttpError:
        client = scope.get("client")
        sender = self.admit(scope["method"], scope["headers"], client[0] if client else "")
        if isinstance(sender, HttpError):
            return sender
        body = await _read_body(receive)
        return body if isinstance(body, HttpError) else self.handle(body, sender)

    @_catch_bugs
    def admit(self, method: str, headers: Headers, peer: str) -> ReportSender | HttpError:
        """Authorize by the headers alone, before any of the body is read."""
        refusal = self._hosts.check(headers)
        if refusal is not None:
            return refusal
        if method != "POST":
            return _WRONG_METHOD
        identity = self._access.authenticate(headers, peer, "POST")
        if isinstance(identity, HttpError):
            return identity
        refusal = self._access.authorize(identity, "report")
        if refusal is not None:
            return refusal
        media_type = _media_type(headers)
        if isinstance(media_type, HttpError):
            return media_type
        return ReportSender(identity, media_type == _JSON)

    @_catch_bugs
    def handle(self, body: bytes, sender: ReportSender) -> ReportResponse | HttpError:
        """Decode a report, deliver it to the fleet, and return its receipt or the error."""
        identity, is_json = sender
        if not self._push.is_running:
            return _STARTING
        try:
            report = decode_report(body, json=is_json)
        except DeliveryError as error:
            return self._undecodable(error, identity)
        snapshot = report.snapshots[-1]
        # Only now is it known which node the report claims to be from; the decoder has checked
        # that all its snapshots are of one node.
        refusal = self._access.authorize(identity, "report", snapshot.node_id)
        if refusal is not None:
            return refusal
        self._push.receive(report)
        faults = self._hub.fleet.faults
        if faults and faults.has("report", snapshot.node_id):
            return _BUG
        return ReportResponse(encode_receipt(self._hub.receipt(snapshot)))

    def _undecodable(self, error: DeliveryError, identity: Identity) -> HttpError:
        # Shown as a failure of the node only where the credential says which one it is.
        if identity.node_id is not None:
            self._push.reject(identity.node_id, error)
        code = "wrong_version" if isinstance(error, UnsupportedVersion) else "undecodable"
        return HttpError(400, code, error.message)


def _media_type(headers: Headers) -> bytes | HttpError:
    """The media type of the body, or the error for a body that is too large or unsupported."""
    media_type = _MSGPACK  # without a header it is what agents send
    for name, value in headers:
        if name == b"content-type":
            media_type = value.partition(b";")[0].strip().lower()
        elif name == b"content-length" and (len(value) > 9 or int(value) > MAX_REPORT_BYTES):
            return _TOO_LARGE
        elif name == b"content-encoding":
            return _UNSUPPORTED_MEDIA_TYPE
    return media_type if media_type in (_JSON, _MSGPACK) else _UNSUPPORTED_MEDIA_TYPE


async def _read_body(receive: Receive) -> bytes | HttpError:
    chunks, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return _DISCONNECTED
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        if size > MAX_REPORT_BYTES:
            return _TOO_LARGE
        more = message.get("more_body", False)
    return b"".join(chunks)
