"""A connection on which nobody may dawdle: one that does not come to the point is closed.

One timer a connection, which rings now and then and looks whether it is too late: one that is
set anew for every request would cost each of them more than its head does.
"""

import asyncio
from math import inf

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

REQUEST_TIMEOUT_SECONDS = 30.0
IDLE_TIMEOUT_SECONDS = 75


class TimeoutProtocol(HttpToolsProtocol):
    """Speaks HTTP as uvicorn does; a request must be there within `REQUEST_SECONDS`."""

    _closed_at = inf
    _bell: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody is there; what do they want?"""
        super().connection_made(transport)
        self.start_request_timeout()
        self._look()

    def on_message_begin(self) -> None:
        """A request begins; it must not take for ever."""
        super().on_message_begin()
        self.start_request_timeout()

    def on_message_complete(self) -> None:
        """All of it is there."""
        self._closed_at = inf
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """They are gone."""
        if self._bell is not None:
            self._bell.cancel()
        super().connection_lost(exc)

    def start_request_timeout(self) -> None:
        """From now on a request must come, or go on, within its time."""
        self._closed_at = self.loop.time() + REQUEST_TIMEOUT_SECONDS

    def start_idle_timeout(self) -> None:
        """One is answered: the next may take longer to begin."""
        self._closed_at = self.loop.time() + IDLE_TIMEOUT_SECONDS

    def _look(self) -> None:
        left = self._closed_at - self.loop.time()
        if left <= 0:
            self.transport.close()
        else:
            self._bell = self.loop.call_later(min(left, REQUEST_TIMEOUT_SECONDS), self._look)
