"""The uvicorn server: its listening socket, its configuration and its graceful shutdown."""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Iterator, Sequence
from functools import partial

import uvicorn
from starlette.types import ASGIApp

from fleet_smi.config.ip_addresses import IpNetworks
from fleet_smi.errors import UsageError
from fleet_smi.server.certificate_reload import LiveCertificate
from fleet_smi.server.connection_limit import ConnectionTable, connection_limit
from fleet_smi.server.report_protocol import ReportProtocol
from fleet_smi.server.timeouts import IDLE_TIMEOUT_SECONDS
from fleet_smi.server.tls_listener import TlsListener

# Streams of events never end by themselves, and must not delay the shutdown.
_GRACE_SECONDS = 1
_BACKLOG = 2048


def _is_worth_logging(record: logging.LogRecord) -> bool:
    # Idle agents and streams are still connected at every shutdown: that is no error.
    is_cancelled = record.exc_info is not None and record.exc_info[0] is asyncio.CancelledError
    return not is_cancelled and "timeout graceful shutdown exceeded" not in str(record.msg)


logging.getLogger("uvicorn.error").addFilter(_is_worth_logging)


class _Server(uvicorn.Server):
    """uvicorn's server; with a certificate, the connections are accepted by a `TlsListener`."""

    def __init__(
        self,
        config: uvicorn.Config,
        connections: ConnectionTable,
        certificate: LiveCertificate | None,
    ) -> None:
        super().__init__(config)
        self._connections = connections
        self._certificate = certificate
        self._tls_listeners: list[TlsListener] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on the sockets."""
        if self._certificate is None:
            await super().startup(sockets)
            return
        await super().startup([])
        self._tls_listeners = [
            TlsListener(each, self._certificate, self._connections, self._create_protocol)
            for each in sockets or ()
        ]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more, and wait a moment for pending responses."""
        for listener in self._tls_listeners:
            listener.close()
        await super().shutdown(sockets)

    def _create_protocol(self) -> asyncio.Protocol:
        return ReportProtocol(
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            connections=self._connections,
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: the process that runs the hub handles them."""
        yield


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Bind the listening sockets; raise `UsageError` with the reason if that fails.

    An empty host is every address of the machine, of IPv4 and IPv6. These are two sockets: with
    one for both, addresses of IPv4 would look like those of IPv6.
    """
    first = _bind(host, port)
    if host or not socket.has_ipv6:
        return [first]
    try:
        # The port that the first has got, if any would do.
        return [first, _listen("::", first.getsockname()[1], socket.AF_INET6)]
    except OSError as error:
        if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):  # switched off here
            return [first]
        first.close()
        raise UsageError(f"cannot listen on [::]:{port}: {error.strerror}") from None


def _bind(host: str, port: int) -> socket.socket:
    try:
        # Not for a name alone: without a host, IPv4 comes first.
        family = socket.AF_UNSPEC if host else socket.AF_INET
        addresses = socket.getaddrinfo(
            host or None, port, family, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        found, _, _, _, address = addresses[0]
        # Host and port only: an IPv6 address has two more fields.
        return _listen(str(address[0]), port, found)
    except OSError as error:
        if isinstance(error, PermissionError):
            reason = "ports under 1024 need root: choose another"
        else:
            reason = error.strerror or str(error)
        raise UsageError(f"cannot listen on {host}:{port}: {reason}") from None


def _listen(host: str, port: int, family: int) -> socket.socket:
    listening = socket.create_server(
        (host, port), family=family, backlog=_BACKLOG, reuse_port=False, dualstack_ipv6=False
    )
    # Connections inherit it. Of the event loops only uvloop sets it by itself, and without it the
    # body of a response waits until the client has acknowledged the head, for 40 ms.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


async def serve(
    app: ASGIApp,
    sockets: Sequence[socket.socket],
    certificate: LiveCertificate | None = None,
    *,
    trusted_proxies: Sequence[str] = (),
) -> None:
    """Serve on these sockets until cancelled; pending responses get a moment to finish."""
    connections = ConnectionTable(connection_limit(), IpNetworks(trusted_proxies))
    config = uvicorn.Config(
        app,
        loop="none",  # the caller runs the event loop
        http=partial(ReportProtocol, connections=connections),  # type: ignore[arg-type]
        ws="none",
        lifespan="off",
        log_config=None,
        # Its warnings are about requests that are malformed: strangers would fill the log.
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        # Forwarded headers are interpreted by `AccessControl`, and only from trusted proxies.
        proxy_headers=False,
        timeout_keep_alive=IDLE_TIMEOUT_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    server = _Server(config, connections, certificate)
    serving = asyncio.ensure_future(server.serve(sockets=list(sockets)))
    try:
        # Shielded: uvicorn is ended by its flag, so that it answers pending requests first.
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise
