"""Single-flight cache: concurrent requests for the same result share one computation.

Read your own writes: a request that comes after a change never gets a result whose computation
began before that change. A view of thousands of nodes costs as much as hundreds of reports, so
its rate is limited: after one was computed, the next of the same key starts only after a pause
in proportion to its cost. All requests that need a newer one wait together for the next.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Hashable, Iterable
from typing import Any, Generic, TypeVar

from fleet_smi.server.backpressure import Backpressure

_T = TypeVar("_T")
_SLICE_SECONDS = 0.005
# A pause of five times the cost: at most a sixth of the processor goes into one key.
_PAUSE_FACTOR = 5
_MAX_PAUSE_SECONDS = 2.0


class SingleFlightCache:
    """Computations by key, on one event loop.

    `revision` counts the changes of the data that every result is computed from.
    """

    def __init__(self, revision: Callable[[], int]) -> None:
        self._revision = revision
        self._flights: dict[Hashable, _Flight] = {}

    async def get_or_compute(self, key: Hashable, compute: Callable[[], Awaitable[_T]]) -> _T:
        """The result of `compute`, or of another request for this key at the same revision."""
        latest = self._flights.get(key)
        if latest is None or not latest.can_be_shared(self._revision()):
            previous, latest = latest, _Flight()
            self._flights[key] = latest
            latest.task = asyncio.ensure_future(self._compute(key, latest, previous, compute))
        # Shielded: a client that disconnects must not cancel what others wait for.
        return await asyncio.shield(latest.task)

    async def _compute(
        self,
        key: Hashable,
        flight: "_Flight",
        previous: "_Flight | None",
        compute: Callable[[], Awaitable[_T]],
    ) -> _T:
        loop = asyncio.get_running_loop()
        if previous is not None:
            # Not awaited itself: its failure is not the failure of this one.
            await asyncio.wait([previous.task])
            await asyncio.sleep(previous.pause_until - loop.time())
        # Nothing may be awaited between these two: a change in between would be missed.
        flight.revision = self._revision()
        computation = _Metered(compute())
        try:
            return await computation
        finally:
            # One that fits into a slice of the event loop is too cheap to be limited.
            pause_seconds = 0.0
            if computation.seconds > _SLICE_SECONDS:
                pause_seconds = min(_MAX_PAUSE_SECONDS, _PAUSE_FACTOR * computation.seconds)
            flight.pause_until = loop.time() + pause_seconds
            if pause_seconds:
                loop.call_later(pause_seconds, self._evict, key, flight)
            else:
                self._evict(key, flight)

    def _evict(self, key: Hashable, flight: "_Flight") -> None:
        if self._flights.get(key) is flight:  # and not a newer one
            del self._flights[key]


class _Flight:
    """One computation; `revision` is the one it began at, `None` until it begins."""

    task: asyncio.Task[Any]

    def __init__(self) -> None:
        self.revision: int | None = None
        self.pause_until = 0.0

    def can_be_shared(self, revision: int) -> bool:
        return self.revision is None or self.revision == revision


class _Metered(Generic[_T]):
    """Awaits something and measures the processor time of its own steps on this thread.

    Time between the steps belongs to other tasks, and wall-clock time grows with the load of
    the machine: neither says what the computation costs.
    """

    def __init__(self, awaited: Awaitable[_T]) -> None:
        self.seconds = 0.0
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, _T]:
        steps: Generator[Any, Any, _T] = self._awaited.__await__()
        # This is `yield from steps`, spelled out so that a clock can be read around each step.
        step, argument = steps.send, None
        while True:
            began = time.thread_time()
            try:
                future = step(argument)
            except StopIteration as end:
                result: _T = end.value
                return result
            finally:
                self.seconds += time.thread_time() - began
            try:
                step, argument = steps.send, (yield future)
            except BaseException as error:  # noqa: BLE001  # how a task is cancelled
                step, argument = steps.throw, error


async def iterate_cooperatively(
    items: Iterable[_T], backpressure: Backpressure
) -> AsyncIterator[_T]:
    """Iterate over many items; every few milliseconds reports are handled first."""
    slice_ends_at = time.monotonic() + _SLICE_SECONDS
    for item in items:
        yield item
        if time.monotonic() >= slice_ends_at:
            await backpressure.yield_to_reports()
            slice_ends_at = time.monotonic() + _SLICE_SECONDS
