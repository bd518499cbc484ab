"""The server's life: its sockets, its event loop, its end."""

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

_GRACE_SECONDS = 1
_BACKLOG = 2048


class TlsFiles(NamedTuple):
    """The files of a certificate and its key."""

    certificate: str
    key: str


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are for whoever runs the hub: the server is only a part of it."""
        yield


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket that listens there; raise `UsageError` that says why it cannot."""
    try:
        everywhere = socket.AI_PASSIVE
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=everywhere)
        family, _, _, _, address = found[0]
        return socket.create_server(
            address[:2], family=family, backlog=_BACKLOG, reuse_port=False, dualstack_ipv6=False
        )
    except OSError as error:
        if isinstance(error, PermissionError):
            why = "ports under 1024 are for root: choose another"
        else:
            why = error.strerror or str(error)
        raise UsageError(f"cannot listen on {host}:{port}: {why}") from None


async def serve(
    app: ASGIApp, sockets: Sequence[socket.socket], tls: TlsFiles | None = None
) -> None:
    """Answer on these sockets until cancelled; whoever is being answered gets a moment."""
    config = uvicorn.Config(
        app,
        loop="none",
        http=ReportProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_TIMEOUT_SECONDS,
        timeout_graceful_shutdown=_GRACE_SECONDS,
        ssl_certfile=None if tls is None else tls.certificate,
        ssl_keyfile=None if tls is None else tls.key,
    )
    server = _Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=list(sockets)))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise
