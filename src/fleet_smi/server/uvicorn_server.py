"""The uvicorn server: its listening socket, its configuration and its graceful shutdown."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import uvicorn
from starlette.types import ASGIApp

from fleet_smi.errors import UsageError
from fleet_smi.server.report_protocol import ReportProtocol
from fleet_smi.server.timeouts import IDLE_TIMEOUT_SECONDS

# Streams of events never end by themselves, and must not delay the shutdown.
_GRACE_SECONDS = 1
_BACKLOG = 2048


class TlsFiles(NamedTuple):
    """The files of a certificate and its key."""

    certificate: str
    key: str


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone: the process that runs the hub handles them."""
        yield


def bind_socket(host: str, port: int) -> socket.socket:
    """Bind a listening socket; raise `UsageError` with the reason if that fails."""
    try:
        addresses = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = addresses[0]
        # Host and port only: an IPv6 address has two more fields.
        return socket.create_server(
            address[:2], family=family, backlog=_BACKLOG, reuse_port=False, dualstack_ipv6=False
        )
    except OSError as error:
        if isinstance(error, PermissionError):
            reason = "ports under 1024 need root: choose another"
        else:
            reason = error.strerror or str(error)
        raise UsageError(f"cannot listen on {host}:{port}: {reason}") from None


async def serve(
    app: ASGIApp, sockets: Sequence[socket.socket], tls: TlsFiles | None = None
) -> None:
    """Serve on these sockets until cancelled; pending responses get a moment to finish."""
    config = uvicorn.Config(
        app,
        loop="none",  # the caller runs the event loop
        http=ReportProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        # Forwarded headers are interpreted by `AccessControl`, and only from trusted proxies.
        proxy_headers=False,
        timeout_keep_alive=IDLE_TIMEOUT_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=list(sockets)))
    try:
        # Shielded: uvicorn is ended by its flag, so that it answers pending requests first.
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise
