"""Accepts TLS connections: a handshake has a place in the table of connections from its start.

A server of asyncio tells nobody of a connection before its handshake is complete: clients that
never complete one would take all descriptors.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from fleet_smi.server.certificate_reload import LiveCertificate
from fleet_smi.server.connection_limit import ConnectionTable

logger = logging.getLogger(__name__)
HANDSHAKE_TIMEOUT_SECONDS = 30.0
_ACCEPTS_AT_ONCE = 128
# Without a free descriptor or buffer, the socket stays readable: not to be tried all the time.
_RETRY_SECONDS = 1.0


class TlsListener:
    """A listening socket whose connections begin with a TLS handshake."""

    def __init__(
        self,
        listening: socket.socket,
        certificate: LiveCertificate,
        connections: ConnectionTable,
        create_protocol: Callable[[], asyncio.Protocol],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._certificate = certificate
        self._connections = connections
        self._create_protocol = create_protocol
        self._handshakes: set[_Handshake] = set()
        self._retry: asyncio.TimerHandle | None = None
        listening.settimeout(0)
        self._start_accepting()

    def close(self) -> None:
        """Accept no more, and end the handshakes; complete connections are not affected."""
        self._loop.remove_reader(self._listening)
        if self._retry is not None:
            self._retry.cancel()
        for handshake in tuple(self._handshakes):
            handshake.evict()

    def _start_accepting(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            try:
                accepted, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                self._loop.remove_reader(self._listening)
                self._retry = self._loop.call_later(_RETRY_SECONDS, self._start_accepting)
                return
            accepted.settimeout(0)
            self._start_handshake(accepted, str(address[0]))

    def _start_handshake(self, accepted: socket.socket, address: str) -> None:
        # The protocol takes a place of its own as soon as the handshake is complete.
        shaking_hands = self._loop.connect_accepted_socket(
            self._create_protocol,
            accepted,
            ssl=self._certificate.context,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_SECONDS,
        )
        handshake = _Handshake(self._loop.create_task(shaking_hands))
        self._handshakes.add(handshake)
        handshake.task.add_done_callback(partial(self._end_handshake, handshake, accepted))
        self._connections.add(handshake, address)

    def _end_handshake(
        self, handshake: "_Handshake", accepted: socket.socket, task: asyncio.Task[Any]
    ) -> None:
        self._handshakes.discard(handshake)
        self._connections.remove(handshake)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, OSError):
            logger.error("a TLS handshake has met a bug", exc_info=error)
        # Strangers fail at will: not a line in the log for each.
        if task.cancelled() or error is not None:
            accepted.close()


class _Handshake:
    """A connection whose handshake is not complete."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task

    def evict(self) -> None:
        """Close it without waiting for the other end."""
        self.task.cancel()
