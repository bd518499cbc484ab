"""A server for few: one function answers, each connection has a thread that ends with it."""

import contextlib
import io
import ipaddress
import os
import socket
import threading
from collections.abc import Callable, Iterable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple

import msgspec

from fleet_smi.config.ip_addresses import is_loopback
from fleet_smi.node.connection_limits import ConnectionLimits, DeadlineSocketReader

_MOST_CONNECTIONS = 16
_MOST_BODY_BYTES = 4096


class AgentRequest(NamedTuple):
    """One question, from a machine of this address; `kind` is what the body is said to be."""

    method: str
    path: str
    authorization: str
    accept: str
    content_type: str
    body: bytes
    address: str


class AgentResponse(NamedTuple):
    """What is told."""

    status: HTTPStatus
    content_type: str
    body: bytes
    retry_after_seconds: int | None = None


def error_response(status: HTTPStatus, message: str) -> AgentResponse:
    """An answer in the one shape that all errors have."""
    error = {"error": {"code": status.phrase.lower().replace(" ", "_"), "message": message}}
    return AgentResponse(status, "application/json", msgspec.json.encode(error))


class AgentHttpServer:
    """Listens from when it is made until `close`; raise `OSError` when it cannot.

    It answers to its own name and to these `hosts`, whole names in small letters.
    """

    def __init__(
        self,
        host: str,
        port: int,
        handler: Callable[[AgentRequest], AgentResponse],
        hosts: Iterable[str] = (),
    ) -> None:
        names = frozenset() if is_loopback(host) else _own_names()
        self._server = _Server(host, port, handler, names, frozenset(hosts))
        self.port: int = self._server.server_address[1]
        self._closing = False
        self._thread = threading.Thread(target=self._serve_on, name="serve", daemon=True)
        self._thread.start()

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
    """A few connections at a time."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = _MOST_CONNECTIONS

    def __init__(
        self,
        host: str,
        port: int,
        answer: Callable[[AgentRequest], AgentResponse],
        names: frozenset[str],
        hosts: frozenset[str],
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.answer = answer
        self._names, self._hosts = names, hosts
        self._places = ConnectionLimits(_MOST_CONNECTIONS)
        self._open: set[socket.socket] = set()

    def server_bind(self) -> None:
        """Bind, without asking the name service who we are."""
        super(HTTPServer, self).server_bind()
        self.server_name, self.server_port = "agent", self.server_address[1]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread, or hang up when too many are being answered."""
        if self._places.acquire(client_address[0]):
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
            self._places.release(client_address[0])

    def hang_up(self) -> None:
        """Cut off everybody who is connected."""
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Somebody hung up: that is no news."""

    def goes_by(self, host: str) -> bool:
        """Whether this machine is called so: no page elsewhere may reach it by its own name."""
        name = host.rpartition(":")[0] if host.count(":") == 1 else host
        name = name.partition("]")[0].lstrip("[") if name.startswith("[") else name
        try:
            ipaddress.ip_address(name)
        except ValueError:
            name = name.lower()
            known = name == "localhost" or name in self._hosts
            return known or name.split(".")[0] in self._names
        return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        """Hear what is said, for as long as there is time to say it."""
        super().setup()
        self.rfile.close()
        self._hearing = DeadlineSocketReader(self.connection)
        self.rfile = io.BufferedReader(self._hearing)

    def do_GET(self) -> None:
        """Answer one question."""
        self._tell(self._answered(b""))

    def do_POST(self) -> None:
        """Answer one that comes with a body, if it is a small one."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or len(length) > 9 or int(length) > _MOST_BODY_BYTES:
            self.close_connection = True  # what follows is not read
            words = f"a body of at most {_MOST_BODY_BYTES} bytes is read, of a length that is told"
            self._tell(error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, words))
        else:
            self._tell(self._answered(self.rfile.read(int(length))))

    def _answered(self, body: bytes) -> AgentResponse:
        if not self.server.goes_by(self.headers.get("Host", "")):
            words = "this machine has another name: add the one you use to its agent.hosts"
            return error_response(HTTPStatus.MISDIRECTED_REQUEST, words)
        asked = AgentRequest(
            method=self.command,
            path=self.path,
            authorization=self.headers.get("Authorization", ""),
            accept=self.headers.get("Accept", ""),
            content_type=self.headers.get("Content-Type", "").partition(";")[0].strip().lower(),
            body=body,
            address=self.client_address[0],
        )
        return self.server.answer(asked)

    def _tell(self, answer: AgentResponse) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        if answer.retry_after_seconds is not None:
            self.send_header("Retry-After", str(answer.retry_after_seconds))
        self.end_headers()
        self.wfile.write(answer.body)
        self._hearing.start_idle_timeout()

    def version_string(self) -> str:
        """Who answers."""
        return "fleet-smi"

    def log_message(self, *_: object) -> None:
        """A question a second is no news."""


def _own_names() -> frozenset[str]:
    return frozenset({os.uname().nodename.lower().split(".")[0]})
