"""A small HTTP server for an agent: one handler function, one thread per connection."""

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
from fleet_smi.node.connection_limits import (
    ConnectionLimits,
    DeadlineSocketReader,
    HeadTooLarge,
)

_MAX_CONNECTIONS = 16
_MAX_BODY_BYTES = 4096
_MAX_FILE_BYTES = 1 << 20


class AgentRequest(NamedTuple):
    """One HTTP request; `address` is the IP address of the client."""

    method: str
    path: str
    authorization: str
    accept: str
    content_type: str
    body: bytes
    address: str


class AgentResponse(NamedTuple):
    """One HTTP response."""

    status: HTTPStatus
    content_type: str
    body: bytes
    retry_after_seconds: int | None = None


def error_response(status: HTTPStatus, message: str) -> AgentResponse:
    """Build an error response: `{"error": {"code": "not_found", "message": …}}`."""
    error = {"error": {"code": status.phrase.lower().replace(" ", "_"), "message": message}}
    return AgentResponse(status, "application/json", msgspec.json.encode(error))


class AgentHttpServer:
    """Listens from its creation until `close`; raises `OSError` when it cannot.

    It accepts requests whose Host header is an IP address, `localhost`, its own name or one of
    `hosts` (full names, lower case). Where `handler` raises, the connection is closed.
    """

    def __init__(
        self,
        host: str,
        port: int,
        handler: Callable[[AgentRequest], AgentResponse],
        hosts: Iterable[str] = (),
    ) -> None:
        # On loopback a client uses `localhost` or an address; no other name needs to be accepted.
        names = frozenset() if is_loopback(host) else own_names()
        self._server = _Server(host, port, handler, names.union(hosts, ["localhost"]))
        self.port: int = self._server.server_address[1]
        self._closing = False
        self._thread = threading.Thread(target=self._serve_loop, name="serve", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and cut off open connections."""
        if self._closing:
            return
        self._closing = True
        self._server.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept()
        self._thread.join()
        self._server.server_close()
        self._server.close_connections()

    def _serve_loop(self) -> None:
        # Not `serve_forever`, which wakes up twice a second to see whether it was stopped.
        while not self._closing:
            self._server.handle_request()


class _Server(ThreadingMixIn, HTTPServer):
    """Serves a bounded number of connections at a time."""

    # An open connection must delay neither `close` nor the end of the process.
    daemon_threads = True
    block_on_close = False
    request_queue_size = _MAX_CONNECTIONS

    def __init__(
        self,
        host: str,
        port: int,
        respond: Callable[[AgentRequest], AgentResponse],
        names: frozenset[str],
    ) -> None:
        # Without a host, every address of the machine: of IPv4 too, on one socket for both.
        self._is_dual = not host and socket.has_dualstack_ipv6()
        self.address_family = socket.AF_INET6 if self._is_dual or ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)
        self.respond = respond
        self._names = names
        self._limits = ConnectionLimits(_MAX_CONNECTIONS)
        self._open: set[socket.socket] = set()

    def server_bind(self) -> None:
        """Bind without a reverse DNS lookup of our own name, which can take seconds."""
        if self._is_dual:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super(HTTPServer, self).server_bind()
        self.server_name, self.server_port = "agent", self.server_address[1]

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection; a client of IPv4 has its address of IPv4 on both sockets."""
        request, address = super().get_request()
        return request, (address[0].removeprefix("::ffff:"), *address[1:])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle the connection in a thread; close it where there are too many."""
        if self._limits.acquire(client_address[0]):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Handle the connection, then release its slot."""
        self._open.add(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._open.discard(request)
            self._limits.release(client_address[0])

    def close_connections(self) -> None:
        """Shut down every open connection."""
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: nearly always the client has disconnected."""

    def is_own_name(self, host: str) -> bool:
        """Whether a Host header names this machine, or is an IP address.

        This stops DNS rebinding: a web page elsewhere that points its own name at this address.
        """
        name = host.rpartition(":")[0] if host.count(":") == 1 else host
        name = name.partition("]")[0].lstrip("[") if name.startswith("[") else name
        try:
            ipaddress.ip_address(name)
        except ValueError:
            # The whole name: the first label under another domain may be anybody's.
            return name.lower().removesuffix(".") in self._names
        return True  # an address needs no DNS, so it cannot be rebound


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def setup(self) -> None:
        """Read requests through a reader that has deadlines."""
        super().setup()
        self.rfile.close()
        self._reader = DeadlineSocketReader(self.connection)
        self.rfile = io.BufferedReader(self._reader)

    def handle_one_request(self) -> None:
        """Answer one request; the base class answers only headers that are too large."""
        try:
            super().handle_one_request()
        except HeadTooLarge:  # within the request line: nothing of the request is known
            self.requestline = self.request_version = self.command = ""
            self.send_error(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    def do_GET(self) -> None:
        """Answer a request without a body."""
        self._send(self._handle(b""))

    def do_POST(self) -> None:
        """Answer a request with a body; status 413 if its length is too large or not given."""
        length = self.headers.get("Content-Length", "")
        # The number of digits first: `int` raises for thousands of them.
        if not length.isdecimal() or len(length) > 9 or int(length) > _MAX_BODY_BYTES:
            # The unread body would be parsed as the next request.
            self.close_connection = True
            message = f"send a Content-Length of at most {_MAX_BODY_BYTES} bytes"
            self._send(error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message))
        else:
            self._reader.end_head()
            self._send(self._handle(self.rfile.read(int(length))))

    def _handle(self, body: bytes) -> AgentResponse:
        if not self.server.is_own_name(self.headers.get("Host", "")):
            message = "this machine has another name: add the one you use to its agent.hosts"
            return error_response(HTTPStatus.MISDIRECTED_REQUEST, message)
        request = AgentRequest(
            method=self.command,
            path=self.path,
            authorization=self.headers.get("Authorization", ""),
            accept=self.headers.get("Accept", ""),
            content_type=self.headers.get("Content-Type", "").partition(";")[0].strip().lower(),
            body=body,
            address=self.client_address[0],
        )
        return self.server.respond(request)

    def _send(self, response: AgentResponse) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cache-Control", "no-store")
        if response.retry_after_seconds is not None:
            self.send_header("Retry-After", str(response.retry_after_seconds))
        self.end_headers()
        self.wfile.write(response.body)
        self._reader.start_idle_timeout()

    def version_string(self) -> str:
        """The Server header: no versions for an attacker."""
        return "fleet-smi"

    def log_message(self, *_: object) -> None:
        """Log nothing: a hub sends a request every second."""


def own_names(root: str = "/") -> frozenset[str]:
    """The names of this machine by its own files, in lower case: no DNS, which can take seconds.

    Its host name, with the domains of `/etc/resolv.conf`, and its other names in `/etc/hosts`.
    """
    node = os.uname().nodename.lower()
    short = node.partition(".")[0]
    names = {node, short}
    for keyword, *words in _read_words(f"{root}/etc/resolv.conf"):
        if keyword in ("search", "domain"):
            names |= {f"{short}.{domain.strip('.')}" for domain in words if domain.strip(".")}
    for _, *words in _read_words(f"{root}/etc/hosts"):
        if node in words or short in words:
            names |= {name for name in words if not name.startswith(("localhost", "ip6-"))}
    return frozenset(names)


def _read_words(path: str) -> list[list[str]]:
    """The words of each line that has any, in lower case; no lines if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            lines = file.read(_MAX_FILE_BYTES).lower().splitlines()
    except OSError:
        return []
    return [words for line in lines if (words := line.partition("#")[0].split())]
