"""The `serve` outlet: the latest report over HTTP, for hubs that pull.

Older systems have their own paths here (`EXTRA_ROUTES`). Each representation is encoded only when
it is requested.
"""

import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from importlib import import_module
from typing import NamedTuple

from fleet_smi.config.addresses import ListenAddress
from fleet_smi.config.ip_addresses import is_loopback
from fleet_smi.errors import Unmet, UsageError
from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.auth_throttle import constant_time_equal
from fleet_smi.node.http_server import (
    AgentHttpServer,
    AgentRequest,
    AgentResponse,
    error_response,
)
from fleet_smi.node.outlets import OutletOptions
from fleet_smi.wire.report import encode_report, encode_report_json, encode_snapshot

JSON_TYPE = "application/json"
HTML_TYPE = "text/html; charset=utf-8"
_REPORT_PATH = "/api/v1/report"

EXTRA_ROUTES: tuple[str, ...] = (
    "fleet_smi.compat.nvgpu.agent_route",
    "fleet_smi.compat.node_info.agent_route",
)
"""Modules with `create_routes(settings) -> tuple[AgentRoute, ...]`."""


class AgentRoute(NamedTuple):
    """One more path of an agent: another representation of its latest snapshot."""

    method: str
    path: str
    encode: Callable[[Snapshot], bytes]
    """Raises `Unmet` where the system answers with an error of the server."""
    content_type: str = JSON_TYPE
    reject: Callable[[AgentRequest], AgentResponse | None] | None = None
    """Its own access check instead of the agent's token: an error, or `None` for access."""

    def __str__(self) -> str:
        return self.path if self.method == "GET" else f"{self.method} {self.path}"


class ServeOutlet:
    """Holds the latest snapshot; requests never change how often samples are taken."""

    name = "serve"
    requested_interval_seconds = None

    def __init__(
        self,
        host: str,
        port: int,
        *,
        token: str | None = None,
        open_to_all: bool = False,
        routes: Iterable[AgentRoute] = (),
        hosts: Iterable[str] = (),
    ) -> None:
        if token is None and not is_loopback(host) and not open_to_all:
            raise UsageError(
                f"{host}:{port} can be reached from other machines: give --serve-token-file, or "
                "--insecure-open to let anybody read this machine's report"
            )
        self._token = token
        self._routes = {route.path: route for route in routes}
        self._latest: Snapshot | None = None
        try:
            self._server = AgentHttpServer(host, port, self._respond, hosts)
        except OSError as error:
            raise UsageError(f"cannot serve on {host}:{port}: {error.strerror}") from None
        self.port = self._server.port

    def publish(self, snapshot: Snapshot) -> None:
        """Replace the latest snapshot."""
        # A single assignment of an immutable value: the server's threads need no lock.
        self._latest = snapshot

    def deliver(self, snapshot: Snapshot) -> None:
        """Raise `UsageError`: a snapshot that waits to be fetched cannot be delivered."""
        raise UsageError("--serve waits for requests, so it cannot be used with --once")

    def close(self) -> None:
        """Stop listening and cut off the requests in progress."""
        self._server.close()

    def _respond(self, request: AgentRequest) -> AgentResponse:
        # Before the token is checked: a health check has none.
        if request.path == "/healthz":
            return AgentResponse(HTTPStatus.OK, "text/plain", b"ok\n")
        route = self._routes.get(request.path)
        if route is not None and route.reject is not None:
            return route.reject(request) or self._encode_latest(_encoder(route))
        if not self._is_authorized(request.authorization):
            message = "the agent's token is needed, as a bearer token"
            return error_response(HTTPStatus.UNAUTHORIZED, message)
        if route is not None and request.method == route.method:
            return self._encode_latest(_encoder(route))
        if request.method != "GET" or request.path != _REPORT_PATH:
            return error_response(HTTPStatus.NOT_FOUND, self._served_paths())
        return self._encode_latest(_report_json if JSON_TYPE in request.accept else _report)

    def _encode_latest(self, encode: Callable[[Snapshot], AgentResponse]) -> AgentResponse:
        if self._latest is None:
            return error_response(HTTPStatus.SERVICE_UNAVAILABLE, "no sample was taken yet")
        return encode(self._latest)

    def _served_paths(self) -> str:
        paths = (_REPORT_PATH, *map(str, self._routes.values()))
        return f"not found: this agent serves {', '.join(paths)} and /healthz"

    def _is_authorized(self, authorization: str) -> bool:
        return self._token is None or constant_time_equal(authorization, f"Bearer {self._token}")


def create_outlet(address: ListenAddress, options: OutletOptions) -> ServeOutlet:
    """Make the outlet of `--serve`, with the extra routes that the settings allow."""
    settings = options.settings
    routes = [
        route for module in EXTRA_ROUTES for route in import_module(module).create_routes(settings)
    ]
    return ServeOutlet(
        *address,
        token=settings.read_serve_token(),
        open_to_all=options.insecure_open,
        routes=routes,
        hosts=settings.hosts,
    )


def _encoder(route: AgentRoute) -> Callable[[Snapshot], AgentResponse]:
    def encode(snapshot: Snapshot) -> AgentResponse:
        try:
            return AgentResponse(HTTPStatus.OK, route.content_type, route.encode(snapshot))
        except Unmet as error:
            return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))

    return encode


def _report(snapshot: Snapshot) -> AgentResponse:
    body = encode_report([encode_snapshot(snapshot)], time.time())
    return AgentResponse(HTTPStatus.OK, "application/msgpack", body)


def _report_json(snapshot: Snapshot) -> AgentResponse:
    return AgentResponse(HTTPStatus.OK, JSON_TYPE, encode_report_json([snapshot], time.time()))
