"""The node's end of `pull`: its latest sample, served to whoever may have it.

Beside our own report it is told in the words of nvgpu's agent, for its masters, and of
gpu-cluster-monitor's node where that has a password: each is encoded only when it is asked for.
"""

import time
from collections.abc import Callable, Iterable
from http import HTTPStatus

import msgspec

from fleet_smi.errors import UsageError
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.auth_throttle import AuthThrottle, constant_time_equal
from fleet_smi.node.http_server import (
    AgentHttpServer,
    AgentRequest,
    AgentResponse,
    error_response,
    is_loopback,
)
from fleet_smi.wire.report import encode_report, encode_report_json, encode_snapshot

_JSON = "application/json"
_PASSWORD_PATH = "/get-status"  # noqa: S105


class ServeOutlet:
    """Holds the latest snapshot; how often it is fetched never changes how often it is taken."""

    name = "serve"
    requested_interval_seconds = None

    def __init__(
        self,
        host: str,
        port: int,
        *,
        token: str | None = None,
        open_to_all: bool = False,
        get_status_password: str | None = None,
        hosts: Iterable[str] = (),
    ) -> None:
        if token is None and not is_loopback(host) and not open_to_all:
            raise UsageError(
                f"{host}:{port} can be reached from outside: give --serve-token-file, or "
                "--insecure-open if everybody may see this machine"
            )
        self._token = token
        self._password = get_status_password
        self._guesses = AuthThrottle()
        self._latest: Snapshot | None = None
        try:
            self._server = AgentHttpServer(host, port, self._answer, hosts)
        except OSError as error:
            raise UsageError(f"cannot serve on {host}:{port}: {error.strerror}") from None
        self.port = self._server.port

    def publish(self, snapshot: Snapshot) -> None:
        """This is the latest from now on."""
        self._latest = snapshot

    def deliver(self, snapshot: Snapshot) -> None:
        """Nobody can be made to fetch."""
        raise UsageError("--serve waits to be asked: it does not go with --once")

    def close(self) -> None:
        """Stop listening; who is being answered is cut off."""
        self._server.close()

    def _answer(self, asked: AgentRequest) -> AgentResponse:
        if asked.path == "/healthz":
            return AgentResponse(HTTPStatus.OK, "text/plain", b"ok\n")
        if asked.path == _PASSWORD_PATH and self._password is not None:
            return self._refused_password(asked, self._password) or self._told(_node_info)
        if not self._may_ask(asked.authorization):
            words = "the agent's token is needed, as a bearer token"
            return error_response(HTTPStatus.UNAUTHORIZED, words)
        if asked.method != "GET" or asked.path not in ("/api/v1/report", "/gpu_status"):
            return error_response(HTTPStatus.NOT_FOUND, self._what_there_is())
        if asked.path == "/gpu_status":
            return self._told(_nvgpu)
        return self._told(_report_json if _JSON in asked.accept else _report)

    def _told(self, encoded: Callable[[Snapshot], AgentResponse]) -> AgentResponse:
        if self._latest is None:
            return error_response(HTTPStatus.SERVICE_UNAVAILABLE, "no sample was taken yet")
        return encoded(self._latest)

    def _what_there_is(self) -> str:
        password = "" if self._password is None else f", POST {_PASSWORD_PATH}"
        return f"there is /api/v1/report, /gpu_status{password} and /healthz"

    def _may_ask(self, authorization: str) -> bool:
        return self._token is None or constant_time_equal(authorization, f"Bearer {self._token}")

    def _refused_password(self, asked: AgentRequest, password: str) -> AgentResponse | None:
        """Why this is not answered; `None` for the right password."""
        if asked.method != "POST":
            words = "this is asked for by POST, with the password"
            return error_response(HTTPStatus.METHOD_NOT_ALLOWED, words)
        if asked.content_type != _JSON:  # which no form of a page elsewhere can send
            return error_response(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "send this as application/json"
            )
        shown = _password_in(asked.body)
        if shown is None:
            return error_response(HTTPStatus.BAD_REQUEST, 'send {"passwd": "the password"}')
        wait_seconds = self._guesses.check_password(asked.address, shown, password)
        if wait_seconds:
            words = "too many wrong passwords from this address: wait and try again"
            answer = error_response(HTTPStatus.TOO_MANY_REQUESTS, words)
            return answer._replace(retry_after_seconds=wait_seconds)
        wrong = error_response(HTTPStatus.FORBIDDEN, "that is not the password")
        return None if wait_seconds is None else wrong


class _Passwd(msgspec.Struct):
    passwd: str


def _password_in(body: bytes) -> str | None:
    try:
        return msgspec.json.decode(body, type=_Passwd).passwd
    except (ValueError, RecursionError):
        return None


def _report(snapshot: Snapshot) -> AgentResponse:
    body = encode_report([encode_snapshot(snapshot)], time.time())
    return AgentResponse(HTTPStatus.OK, "application/msgpack", body)


def _report_json(snapshot: Snapshot) -> AgentResponse:
    return AgentResponse(HTTPStatus.OK, _JSON, encode_report_json([snapshot], time.time()))


def _nvgpu(snapshot: Snapshot) -> AgentResponse:
    from fleet_smi.compat.nvgpu.codec import encode_gpu_status  # few agents are ever asked

    return AgentResponse(HTTPStatus.OK, _JSON, encode_gpu_status(snapshot))


def _node_info(snapshot: Snapshot) -> AgentResponse:
    from fleet_smi.compat.node_info.codec import encode_status

    return AgentResponse(HTTPStatus.OK, _JSON, encode_status(snapshot))
