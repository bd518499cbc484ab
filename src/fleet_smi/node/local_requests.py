"""Requests of local users, forwarded to the hub in their name.

Only what `wire/vouching.py` allows is forwarded, with the credential of this node and the name of
the user: nothing else of the request but its path, its query and its body.
"""

import contextlib
import socket
import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from fleet_smi.client.connection import HubConnection, Response
from fleet_smi.errors import FleetError
from fleet_smi.model.token_bucket import TokenBucket
from fleet_smi.paths import user_name
from fleet_smi.wire.vouching import USER_HEADER, encode_user, may_forward

_REQUEST_SECONDS = 5.0
FORWARD_SECONDS = 20.0
_MAX_HEAD_BYTES = 8 << 10
_MAX_BODY_BYTES = 32 << 10
_MAX_RESPONSE_BYTES = 4 << 20
_UNAUTHORIZED = 401
_OVERFLOW_UID = 65534
_NAME_SECONDS = 300.0
_MAX_NAMES = 1024
_REASONS = {400: "Bad Request", 403: "Forbidden", 413: "Too Large", 503: "Not Available"}
_JSON = "application/json"


class LocalRequest(NamedTuple):
    """The parts of a request that are forwarded."""

    method: str
    target: str
    body: bytes | None


class _Rejected(Exception):
    """The request is not forwarded."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RequestForwarder:
    """Answers one connection of a local user: reads its request, asks the hub, sends the answer."""

    def __init__(
        self,
        connect: Callable[[float], HubConnection | None],
        *,
        name_of: Callable[[int], str] = user_name,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create it; `connect` returns a new connection to the hub, `None` before it has joined."""
        self._connect = connect
        self._name_of = name_of
        self._clock = clock
        self._names: dict[int, tuple[str, float]] = {}
        self._overflow_uid = _read_overflow_uid()
        # Users without a name share a limit: one person can have thousands of such ids.
        self._nameless = TokenBucket(burst=8, refill_seconds=0.5)

    def __call__(self, connection: socket.socket, uid: int) -> None:
        """Answer the request of a connection; raise `OSError` if its caller is slow or gone."""
        try:
            user = self._user(uid)
            request = _read_request(connection, self._clock() + _REQUEST_SECONDS, self._clock)
            response = self._forward(request, user, uid)
        except _Rejected as error:
            response = _error_response(error.status, str(error))
        connection.settimeout(_REQUEST_SECONDS)
        connection.sendall(_encode(response))

    def _user(self, uid: int) -> str:
        now = self._clock()
        name, until = self._names.get(uid, ("", -1.0))
        if now >= until:
            name = self._name_of(uid)
            if len(self._names) >= _MAX_NAMES:
                self._names.clear()
            self._names[uid] = name, now + _NAME_SECONDS
        if name == str(uid) and self._nameless.acquire("", now):
            raise _Rejected(429, "too many requests of users without a name: try again later")
        return name

    def _forward(self, request: LocalRequest, user: str, uid: int) -> Response:
        if uid == self._overflow_uid:
            # Several users look like this one to an agent in a user namespace of its own.
            raise _Rejected(403, "the agent cannot see who you are: run `fleet-smi login`")
        if not may_forward(request.method, request.target.partition("?")[0]):
            raise _Rejected(403, "the agent forwards no such request: run `fleet-smi login`")
        headers = {USER_HEADER: encode_user(user)}
        if request.body is not None:
            headers["Content-Type"] = _JSON
        try:
            hub = self._connect(FORWARD_SECONDS)
            if hub is None:
                raise _Rejected(503, "the agent of this machine has not joined its hub yet")
            with contextlib.closing(hub):
                response = hub.request(
                    request.method, request.target, request.body, headers, _MAX_RESPONSE_BYTES
                )
        except FleetError as error:
            raise _Rejected(503, str(error)) from None
        if response.status == _UNAUTHORIZED:
            # It is not the user who is refused.
            raise _Rejected(503, "the hub does not accept the credential of this machine's agent")
        return response


def _read_request(
    connection: socket.socket, deadline: float, clock: Callable[[], float]
) -> LocalRequest:
    """Read one request of HTTP; `_Rejected` if it is malformed or too large."""

    def receive(size: int) -> bytes:
        left = deadline - clock()
        if left <= 0:
            raise TimeoutError
        connection.settimeout(left)
        data = connection.recv(size)
        if not data:
            raise ConnectionResetError
        return data

    buffer = b""
    while b"\r\n\r\n" not in buffer:
        if len(buffer) > _MAX_HEAD_BYTES:
            raise _Rejected(413, "the request is too large")
        buffer += receive(_MAX_HEAD_BYTES)
    head, _, body = buffer.partition(b"\r\n\r\n")
    if len(head) > _MAX_HEAD_BYTES:
        raise _Rejected(413, "the request is too large")
    method, target, length = _parse_head(head)
    if length is None:
        return LocalRequest(method, target, None)
    if length > _MAX_BODY_BYTES:
        raise _Rejected(413, f"the body exceeds {_MAX_BODY_BYTES >> 10} KiB")
    while len(body) < length:
        body += receive(length - len(body))
    return LocalRequest(method, target, body[:length])


def _parse_head(head: bytes) -> tuple[str, str, int | None]:
    """The method, the target and the length of the body."""
    first, *lines = head.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or not words[2].startswith(b"HTTP/1.") or not words[1].startswith(b"/"):
        raise _Rejected(400, "this is not a request of HTTP/1.1")
    # A target goes into the request to the hub as it is: no blank, no control character.
    if not all(0x21 <= byte <= 0x7E for byte in words[1]):
        raise _Rejected(400, "the path has characters that must be encoded")
    length = None
    for line in lines:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"transfer-encoding":
            raise _Rejected(400, "send the body with its Content-Length")
        if name.strip().lower() == b"content-length":
            if length is not None or not value.strip().isdigit() or len(value) > 9:
                raise _Rejected(400, "invalid Content-Length")
            length = int(value)
    return words[0].decode("latin-1"), words[1].decode("ascii"), length


def _error_response(status: int, message: str) -> Response:
    error = {"error": {"code": "agent", "message": message}}
    return Response(status, {"content-type": _JSON}, msgspec.json.encode(error))


def _encode(response: Response) -> bytes:
    lines = [
        f"HTTP/1.1 {response.status} {_REASONS.get(response.status, 'Answer')}",
        f"Content-Type: {response.headers.get('content-type', _JSON)}",
        f"Content-Length: {len(response.body)}",
        "Connection: close",
    ]
    if "retry-after" in response.headers:
        lines.append(f"Retry-After: {response.headers['retry-after']}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + response.body


def _read_overflow_uid() -> int:
    """The user id that stands for all that have none in this user namespace."""
    try:
        with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return _OVERFLOW_UID
