"""The node's end of `pull`: its latest report, served to whoever may have it."""

import contextlib
import hmac
import ipaddress
import os
import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any

import msgspec

from fleet_smi.errors import UsageError
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.wire.report import encode_report, encode_report_json, encode_snapshot

_MOST_CONNECTIONS = 16
_QUIET_SECONDS = 30.0


class ServeOutlet:
    """Holds the latest snapshot; how often it is fetched never changes how often it is taken."""

    name = "serve"
    asked_interval_seconds = None

    def __init__(
        self, host: str, port: int, *, token: str | None = None, open_to_all: bool = False
    ) -> None:
        loopback = _is_loopback(host)
        if token is None and not loopback and not open_to_all:
            raise UsageError(
                f"{host}:{port} can be reached from outside: give --serve-token-file, or "
                "--insecure-open if everybody may see this machine"
            )
        try:
            self._server = _Server(host, port, token, frozenset() if loopback else _own_names())
        except OSError as error:
            raise UsageError(f"cannot serve on {host}:{port}: {error.strerror}") from None
        self.port = self._server.port
        self._closing = False
        self._thread = threading.Thread(target=self._serve_on, name="serve", daemon=True)
        self._thread.start()

    def offer(self, snapshot: Snapshot) -> None:
        """This is the latest from now on."""
        self._server.latest = snapshot

    def deliver(self, snapshot: Snapshot) -> None:
        """Nobody can be made to fetch."""
        raise UsageError("--serve waits to be asked: it does not go with --once")

    def close(self) -> None:
        """Stop listening; who is being answered is cut off."""
        if self._closing:
            return
        self._closing = True
        self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes who waits there for the next
        self._thread.join()
        self._server.server_close()
        self._server.hang_up()

    def _serve_on(self) -> None:
        while not self._closing:
            self._server.handle_request()


class _Server(ThreadingMixIn, HTTPServer):
    """A few connections at a time, each with a thread that ends with it."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = _MOST_CONNECTIONS

    def __init__(self, host: str, port: int, token: str | None, names: frozenset[str]) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.port: int = self.server_address[1]
        self.latest: Snapshot | None = None
        self._token = token
        self._names = names
        self._room = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        self._open: set[socket.socket] = set()

    def server_bind(self) -> None:
        """Bind, without asking the name service who we are."""
        super(HTTPServer, self).server_bind()
        self.server_name, self.server_port = "agent", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or hang up when too many are being answered."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and make room for the next."""
        self._open.add(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.discard(request)
            self._room.release()

    def hang_up(self) -> None:
        """Cut off everybody who is connected."""
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Somebody hung up: that is no news."""

    def may_ask(self, authorization: str) -> bool:
        """Whether this is the token, in a time that does not tell how much of it is right."""
        if self._token is None:
            return True
        return hmac.compare_digest(authorization.encode(), f"Bearer {self._token}".encode())

    def goes_by(self, host: str) -> bool:
        """Whether this machine is called so: no page elsewhere may reach it by its own name."""
        name = host.rpartition(":")[0] if host.count(":") == 1 else host
        name = name.partition("]")[0].lstrip("[") if name.startswith("[") else name
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.lower() == "localhost" or name.lower().split(".")[0] in self._names
        return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _QUIET_SECONDS
    server: _Server

    def do_GET(self) -> None:
        """Answer one question."""
        if not self.server.goes_by(self.headers.get("Host", "")):
            self._refuse(HTTPStatus.MISDIRECTED_REQUEST, "this machine has another name")
        elif self.path == "/healthz":
            self._answer(HTTPStatus.OK, "text/plain", b"ok\n")
        elif not self.server.may_ask(self.headers.get("Authorization", "")):
            self._refuse(HTTPStatus.UNAUTHORIZED, "the agent's token is needed, as a bearer token")
        elif self.path != "/api/v1/report":
            self._refuse(HTTPStatus.NOT_FOUND, "there is /api/v1/report and /healthz")
        elif self.server.latest is None:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "no sample was taken yet")
        else:
            self._report(self.server.latest)

    def _report(self, snapshot: Snapshot) -> None:
        if "application/json" in self.headers.get("Accept", ""):
            body = encode_report_json([snapshot], time.time())
            self._answer(HTTPStatus.OK, "application/json", body)
        else:
            body = encode_report([encode_snapshot(snapshot)], time.time())
            self._answer(HTTPStatus.OK, "application/msgpack", body)

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        error = {"error": {"code": status.phrase.lower().replace(" ", "_"), "message": message}}
        self._answer(status, "application/json", msgspec.json.encode(error))

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def version_string(self) -> str:
        """Who answers."""
        return "fleet-smi"

    def log_message(self, *_: object) -> None:
        """A question a second is no news."""


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _own_names() -> frozenset[str]:
    return frozenset({os.uname().nodename.lower().split(".")[0]})
