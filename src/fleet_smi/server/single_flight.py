"""Single flight: what many viewers ask for is made once, in short turns, and shared.

Read your own writes: a request that comes after a change is never given what was begun before
that change. To look at thousands of nodes takes as long as hundreds of reports, so what is
limited is how often it is made: after it was made, the next making of the same begins only
after so many times what it took. Until then all who want newer wait together for the next.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Hashable, Iterable
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")
_TURN_SECONDS = 0.005
# After it was made for one second, the same is not made again for five: a sixth of the time.
_RESTS_TIMES = 5
_RESTS_AT_MOST_SECONDS = 2.0


class SingleFlightCache:
    """Flights by what was asked for; lives on one event loop.

    `revision` counts the changes of what all is made from.
    """

    def __init__(self, revision: Callable[[], int]) -> None:
        self._revision = revision
        self._flights: dict[Hashable, _Flight] = {}

    async def get_or_compute(self, key: Hashable, compute: Callable[[], Awaitable[_T]]) -> _T:
        """What this makes, or what another who asked the same has of the present revision."""
        latest = self._flights.get(key)
        if latest is None or not latest.may_be_boarded(self._revision()):
            before, latest = latest, _Flight()
            self._flights[key] = latest
            latest.task = asyncio.ensure_future(self._fly(key, latest, before, compute))
        # Whoever gives up must not cancel what others wait for.
        return await asyncio.shield(latest.task)

    async def _fly(
        self,
        asked: Hashable,
        flight: "_Flight",
        before: "_Flight | None",
        make: Callable[[], Awaitable[_T]],
    ) -> _T:
        loop = asyncio.get_running_loop()
        if before is not None:
            await asyncio.wait([before.task])
            await asyncio.sleep(before.rests_until - loop.time())
        # Nothing may be awaited between these two: a change in between would be missed.
        flight.revision = self._revision()
        making = _Metered(make())
        try:
            return await making
        finally:
            rests_seconds = 0.0
            if making.seconds > _TURN_SECONDS:
                rests_seconds = min(_RESTS_AT_MOST_SECONDS, _RESTS_TIMES * making.seconds)
            flight.rests_until = loop.time() + rests_seconds
            if rests_seconds:
                loop.call_later(rests_seconds, self._land, asked, flight)
            else:
                self._land(asked, flight)

    def _land(self, asked: Hashable, flight: "_Flight") -> None:
        if self._flights.get(asked) is flight:
            del self._flights[asked]


class _Flight:
    """One making; `revision` is what it began from, and `None` until it begins."""

    task: asyncio.Task[Any]

    def __init__(self) -> None:
        self.revision: int | None = None
        self.rests_until = 0.0

    def may_be_boarded(self, revision: int) -> bool:
        return self.revision is None or self.revision == revision


class _Metered(Generic[_T]):
    """Awaits something and counts the processor time of its own steps on this thread.

    The time between them belongs to others on the event loop, and that the machine is busy
    makes nothing dear.
    """

    def __init__(self, awaited: Awaitable[_T]) -> None:
        self.seconds = 0.0
        self._awaited = awaited

    def __await__(self) -> Generator[Any, Any, _T]:
        steps: Generator[Any, Any, _T] = self._awaited.__await__()
        step, given = steps.send, None
        while True:
            began = time.thread_time()
            try:
                waits_for = step(given)
            except StopIteration as end:
                made: _T = end.value
                return made
            finally:
                self.seconds += time.thread_time() - began
            try:
                step, given = steps.send, (yield waits_for)
            except BaseException as error:  # noqa: BLE001  # a cancelled task is told so this way
                step, given = steps.throw, error


async def iterate_cooperatively(items: Iterable[_T]) -> AsyncIterator[_T]:
    """Each of these; every few milliseconds all others on the event loop have their turn."""
    over_at = time.monotonic() + _TURN_SECONDS
    for thing in items:
        yield thing
        if time.monotonic() >= over_at:
            await asyncio.sleep(0)
            over_at = time.monotonic() + _TURN_SECONDS
