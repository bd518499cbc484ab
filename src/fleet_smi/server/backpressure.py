"""Back-pressure: a queue for reports that exceed one time slice of the event loop.

The event loop handles everything that has arrived before it looks at anything else. With
thousands of agents reporting in the same second that takes seconds, in which no page gets an
event and no signal is handled. So reports get a slice of each iteration and the rest waits.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

_SLICE_SECONDS = 0.02


class Backpressure:
    """Limits the reports handled per iteration of the event loop; the rest is queued."""

    def __init__(self) -> None:
        self._queue: deque[Callable[[], None]] = deque()
        self._slice_ends_at: float | None = None

    def has_capacity(self) -> bool:
        """Whether one more report can be handled now; if not, pass it to `defer`."""
        if self._slice_ends_at is None:
            self._slice_ends_at = time.monotonic() + _SLICE_SECONDS
            # It runs in the next iteration, when all that has arrived by now was handled.
            asyncio.get_running_loop().call_soon(self._run_slice)
        # First come, first served: nothing new overtakes what is queued.
        return not self._queue and time.monotonic() < self._slice_ends_at

    def defer(self, resume: Callable[[], None]) -> None:
        """Call this in a later iteration, when those queued before it are done."""
        self._queue.append(resume)

    def _run_slice(self) -> None:
        """Resume what has waited longest, for one slice; at least one, so that it never stalls."""
        self._slice_ends_at = time.monotonic() + _SLICE_SECONDS
        while self._queue:
            self._queue.popleft()()
            if time.monotonic() >= self._slice_ends_at:
                asyncio.get_running_loop().call_soon(self._run_slice)
                return
        self._slice_ends_at = None
