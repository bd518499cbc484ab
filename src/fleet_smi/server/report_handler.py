"""`POST /api/v1/reports`: what nodes send by themselves. `at_once.py` asks this directly."""

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
_Found = TypeVar("_Found")
_JSON, _MSGPACK = b"application/json", b"application/msgpack"
_TOO_LARGE = HttpError(413, "too_large", f"a report has at most {MAX_REPORT_BYTES >> 20} MiB")
_WRONG_METHOD = HttpError(405, "wrong_method", "reports are sent by POST", allow="POST")
_WRONG_KIND = HttpError(415, "wrong_kind", "send application/msgpack or application/json, unpacked")
_GONE = HttpError(400, "cut_short", "the connection ended before the report did")
# Not 500: a report that finds a bug would find it again, however often it is sent.
_BUG = HttpError(422, "bug", "this report finds a bug in fleet-smi; the hub's log says more")
_STARTING = HttpError(503, "not_ready", "the hub is starting or ending: send it again", 1)


class ReportSender(NamedTuple):
    """Who sends a report, and how it is written."""

    identity: Identity
    is_json: bool


class ReportResponse(NamedTuple):
    """A receipt as it is sent; it has what a refusal has."""

    body: bytes
    status: int = 200

    @property
    def headers(self) -> Headers:
        """What goes with the body, its length included."""
        return [
            (b"content-type", _JSON),
            (b"content-length", b"%d" % len(self.body)),
            # The rest of the security headers is for pages, which this is no answer to.
            (b"x-content-type-options", b"nosniff"),
        ]


def _outliving_bugs(step: Callable[_Args, _Found]) -> Callable[_Args, _Found | HttpError]:
    @wraps(step)
    def outliving(*args: _Args.args, **kwargs: _Args.kwargs) -> _Found | HttpError:
        try:
            return step(*args, **kwargs)
        except Exception:  # a bug in taking one report must not stop the hub
            logger.exception("bug in %s", ReportHandler.path)
            return _BUG

    return outliving


class ReportHandler:
    """A report in, a receipt out: in two steps, or as ASGI."""

    path = "/api/v1/reports"

    def __init__(self, services: Services, hosts: AllowedHosts) -> None:
        self._hub = services.hub
        self._push = services.push
        self._access = services.access
        self._hosts = hosts
        self.backpressure = Backpressure()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        answer = await self._answer(scope, receive)
        start = {"status": answer.status, "headers": answer.headers}
        await send({"type": "http.response.start", **start})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Message, receive: Receive) -> ReportResponse | HttpError:
        client = scope.get("client")
        sender = self.admit(scope["method"], scope["headers"], client[0] if client else "")
        if isinstance(sender, HttpError):
            return sender
        body = await _body(receive)
        return body if isinstance(body, HttpError) else self.handle(body, sender)

    @_outliving_bugs
    def admit(self, method: str, headers: Headers, peer: str) -> ReportSender | HttpError:
        """Who sends a report, by the head of the request; or why it is not even read."""
        refusal = self._hosts.check(headers)
        if refusal is not None:
            return refusal
        if method != "POST":
            return _WRONG_METHOD
        who = self._access.authenticate(headers, peer, "POST")
        if isinstance(who, HttpError):
            return who
        refusal = self._access.authorize(who, "report")
        if refusal is not None:
            return refusal
        kind = _kind(headers)
        return kind if isinstance(kind, HttpError) else ReportSender(who, kind == _JSON)

    @_outliving_bugs
    def handle(self, body: bytes, sender: ReportSender) -> ReportResponse | HttpError:
        """Take a report in."""
        who, json = sender
        if not self._push.is_running:
            return _STARTING
        try:
            report = decode_report(body, json=json)
        except DeliveryError as error:
            return self._undecodable(error, who)
        snapshot = report.snapshots[-1]
        refusal = self._access.authorize(who, "report", snapshot.node_id)
        if refusal is not None:
            return refusal
        self._push.receive(report)
        return ReportResponse(encode_receipt(self._hub.receipt(snapshot)))

    def _undecodable(self, error: DeliveryError, who: Identity) -> HttpError:
        if who.node_id is not None:
            self._push.reject(who.node_id, error)
        code = "wrong_version" if isinstance(error, UnsupportedVersion) else "undecodable"
        return HttpError(400, code, error.message)


def _kind(headers: Headers) -> bytes | HttpError:
    """What the body is, by its headers; a refusal when it is nothing that is read here."""
    kind = _MSGPACK
    for name, value in headers:
        if name == b"content-type":
            kind = value.partition(b";")[0].strip().lower()
        elif name == b"content-length" and (len(value) > 9 or int(value) > MAX_REPORT_BYTES):
            return _TOO_LARGE
        elif name == b"content-encoding":
            return _WRONG_KIND
    return kind if kind in (_JSON, _MSGPACK) else _WRONG_KIND


async def _body(receive: Receive) -> bytes | HttpError:
    parts, size, more = [], 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return _GONE
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > MAX_REPORT_BYTES:
            return _TOO_LARGE
        more = message.get("more_body", False)
    return b"".join(parts)
