"""The server's life: its sockets, its event loop, its end."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import uvicorn
from starlette.types import ASGIApp

from fleet_smi.errors import UsageError
from fleet_smi.server.at_once import AtOnce

_GRACE_SECONDS = 1
REQUEST_SECONDS = 30.0
_KEEP_ALIVE_SECONDS = 75
_BACKLOG = 2048


class Tls(NamedTuple):
    """The files of a certificate and its key."""

    certificate: str
    key: str


class _Impatient(AtOnce):
    """Hangs up on those who open a connection and do not come to the point."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there; what do they want?"""
        super().connection_made(transport)
        self._wait()

    def on_message_begin(self) -> None:
        """A request begins; it must not take for ever."""
        super().on_message_begin()
        self._wait()

    def on_message_complete(self) -> None:
        """All of it is there."""
        self._stop_waiting()
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self._waiting = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are for whoever runs the hub: the server is only a part of it."""
        yield


def bound(host: str, port: int) -> socket.socket:
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


async def serve(app: ASGIApp, sockets: Sequence[socket.socket], tls: Tls | None = None) -> None:
    """Answer on these sockets until cancelled; whoever is being answered gets a moment."""
    config = uvicorn.Config(
        app,
        loop="none",
        http=_Impatient,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
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
