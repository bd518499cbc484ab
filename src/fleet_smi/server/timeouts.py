"""Timeouts of HTTP connections: slow requests, idle and stalled connections are closed.

There is one timer per connection, which checks the deadline periodically. To cancel and set
a timer for every request would cost more than parsing its headers.
"""

import asyncio
from math import inf

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

REQUEST_TIMEOUT_SECONDS = 30.0
IDLE_TIMEOUT_SECONDS = 75
STALL_TIMEOUT_SECONDS = 60.0
"""How long a client may read nothing of what it was sent; every byte that it reads restarts it."""


class TimeoutProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a deadline for each request to arrive completely."""

    _deadline = inf
    _stall_deadline = inf
    _unread_bytes = 0
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer of a new connection."""
        super().connection_made(transport)
        self.start_request_timeout()
        self._check_deadline()

    def on_message_begin(self) -> None:
        """Set the deadline of a new request."""
        super().on_message_begin()
        self.start_request_timeout()

    def on_message_complete(self) -> None:
        """Clear the deadline: how long the response takes is not the client's fault."""
        self._deadline = inf
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Set a deadline for a client that does not read its response."""
        super().pause_writing()
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._stall_deadline = self.loop.time() + STALL_TIMEOUT_SECONDS

    def resume_writing(self) -> None:
        """Clear that deadline: most of the response was read."""
        super().resume_writing()
        self._stall_deadline = inf

    def start_request_timeout(self) -> None:
        """Close the connection unless a whole request arrives in time."""
        self._deadline = self.loop.time() + REQUEST_TIMEOUT_SECONDS

    def start_idle_timeout(self) -> None:
        """Close the connection unless the next request begins in time."""
        self._deadline = self.loop.time() + IDLE_TIMEOUT_SECONDS

    def _extend_stall_deadline(self) -> None:
        unread = self.transport.get_write_buffer_size()
        if unread < self._unread_bytes:
            self._unread_bytes = unread
            self._stall_deadline = self.loop.time() + STALL_TIMEOUT_SECONDS

    def _check_deadline(self) -> None:
        if self._stall_deadline < inf:
            self._extend_stall_deadline()
        left = min(self._deadline, self._stall_deadline) - self.loop.time()
        if left <= 0 and self._stall_deadline < self._deadline:
            self.transport.abort()  # to close would wait for what is not read
        elif left <= 0:
            self.transport.close()
        else:
            # Not later than a request timeout from now: a new request may set a deadline as
            # early as that.
            delay = min(left, REQUEST_TIMEOUT_SECONDS)
            self._timer = self.loop.call_later(delay, self._check_deadline)
