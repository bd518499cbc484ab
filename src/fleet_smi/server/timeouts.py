"""Timeouts of HTTP connections: slow requests and idle connections are closed.

There is one timer per connection, which checks the deadline periodically. To cancel and set
a timer for every request would cost more than parsing its headers.
"""

import asyncio
from math import inf

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

REQUEST_TIMEOUT_SECONDS = 30.0
IDLE_TIMEOUT_SECONDS = 75


class TimeoutProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol with a deadline for each request to arrive completely."""

    _deadline = inf
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

    def start_request_timeout(self) -> None:
        """Close the connection unless a whole request arrives in time."""
        self._deadline = self.loop.time() + REQUEST_TIMEOUT_SECONDS

    def start_idle_timeout(self) -> None:
        """Close the connection unless the next request begins in time."""
        self._deadline = self.loop.time() + IDLE_TIMEOUT_SECONDS

    def _check_deadline(self) -> None:
        left = self._deadline - self.loop.time()
        if left <= 0:
            self.transport.close()
        else:
            # Not later than a request timeout from now: a new request may set a deadline as
            # early as that.
            delay = min(left, REQUEST_TIMEOUT_SECONDS)
            self._timer = self.loop.call_later(delay, self._check_deadline)
