"""Back-pressure: a queue for reports that exceed one time slice of the event loop.

The event loop handles everything that has arrived before it looks at anything else. With
thousands of agents reporting in the same second that takes seconds, in which no page gets an
event and no signal is handled. So reports get a slice of each iteration and the rest waits.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from fleet_smi.model.token_bucket import TokenBucket

_SLICE_SECONDS = 0.02
# Work of queries that reports are made to wait for: on a hub that is behind, a person who looks
# now and then is answered at once, and programs that query all the time get this share.
_QUERY_BURST_SECONDS, _QUERY_SHARE = 0.4, 0.15
# What a query has done when it yields, about: the slice of a cooperative query.
_QUERY_SLICE_SECONDS = 0.005
# Beyond that, a query gets its turn after this time, also on a hub that is always behind.
_MAX_QUERY_WAIT_SECONDS = 0.1


def _ignore(_: float) -> None:
    pass


class Backpressure:
    """Limits the reports handled per iteration of the event loop; the rest is queued."""

    def __init__(self) -> None:
        self.on_wait: Callable[[float], None] = _ignore
        """Is called with the seconds that a report has waited."""
        self.is_queueing = False
        """Whether reports wait: nothing new overtakes them."""
        self._queue: deque[tuple[float, Callable[[], None]]] = deque()
        self._slice_ends_at: float | None = None
        self._query_turn = asyncio.Lock()
        self._query_budget = TokenBucket(
            burst=_QUERY_BURST_SECONDS, refill_seconds=1 / _QUERY_SHARE, max_keys=1
        )

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
        self._queue.append((time.monotonic(), resume))
        self.is_queueing = True

    async def yield_to_reports(self) -> None:
        """Let reports be handled: called by a query between two slices of its work.

        One slice of reports, while queries are within their budget; else all that are queued.
        """
        await asyncio.sleep(0)
        if not self._queue or not self._query_budget.overdraw(
            "queries", _QUERY_SLICE_SECONDS, time.monotonic()
        ):
            return
        # One at a time: on a hub that is behind, all queries together get one turn.
        async with self._query_turn:
            ends_at = time.monotonic() + _MAX_QUERY_WAIT_SECONDS
            while self._queue and time.monotonic() < ends_at:
                await asyncio.sleep(0)

    def _run_slice(self) -> None:
        """Resume what has waited longest, for one slice; at least one, so that it never stalls."""
        now = time.monotonic()
        self._slice_ends_at = now + _SLICE_SECONDS
        if self._queue:
            self.on_wait(now - self._queue[0][0])
        while self._queue:
            _, resume = self._queue.popleft()
            resume()
            if time.monotonic() >= self._slice_ends_at:
                asyncio.get_running_loop().call_soon(self._run_slice)
                return
        self._slice_ends_at = None
        self.is_queueing = False
