"""When more reports come than can be taken in: some now, the rest after everybody else's turn.

The event loop hands out all that has come before it looks at anything else. From thousands of
connections that takes seconds, in which no page is fed and no signal is heard.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

_TURN_SECONDS = 0.02


class Backpressure:
    """A line that reports wait in once those of one turn of the event loop took long enough."""

    def __init__(self) -> None:
        self._line: deque[Callable[[], None]] = deque()
        self._over_at: float | None = None

    def has_capacity(self) -> bool:
        """Whether one more report can be taken in now; if not, it is to `wait`."""
        if self._over_at is None:
            self._over_at = time.monotonic() + _TURN_SECONDS
            asyncio.get_running_loop().call_soon(self._turn)
        return not self._line and time.monotonic() < self._over_at

    def defer(self, resume: Callable[[], None]) -> None:
        """Call this when its turn has come."""
        self._line.append(resume)

    def _turn(self) -> None:
        """Let those go on who have waited longest, one of them at least."""
        self._over_at = time.monotonic() + _TURN_SECONDS
        while self._line:
            self._line.popleft()()
            if time.monotonic() >= self._over_at:
                asyncio.get_running_loop().call_soon(self._turn)
                return
        self._over_at = None
