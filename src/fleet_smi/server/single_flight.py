"""What many viewers ask for is made once, in short turns, and shared for as long as it was dear.

To look at thousands of nodes takes as long as hundreds of reports. Between the turns these and
the listeners have theirs; and what was made lasts so many times what it took, so that viewers,
however many they are, get no more than a share of the hub's time. What takes no more than a turn
is never kept: a small fleet is always told as it is.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from typing import Any, TypeVar

_T = TypeVar("_T")
_TURN_SECONDS = 0.005
_LASTS_TIMES = 5
_LASTS_AT_MOST_SECONDS = 2.0


class SingleFlightCache:
    """Things by what was asked for; lives on one event loop."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, asyncio.Future[Any]] = {}

    async def get_or_compute(self, key: Hashable, compute: Callable[[], Awaitable[_T]]) -> _T:
        """What this makes, or is making or has just made for another who asked the same."""
        found: asyncio.Future[_T] | None = self._kept.get(key)
        if found is None:
            found = self._kept[key] = asyncio.ensure_future(self._made(key, compute))
        return await asyncio.shield(found)

    def clear(self) -> None:
        """Make everything anew from now on."""
        self._kept = {}

    async def _made(self, asked: Hashable, make: Callable[[], Awaitable[_T]]) -> _T:
        # By the thread's own clock: that the machine is busy makes nothing dear.
        kept, began = self._kept, time.thread_time()
        try:
            made = await make()
        except BaseException:
            kept.pop(asked, None)
            raise
        took_seconds = time.thread_time() - began
        if took_seconds > _TURN_SECONDS:
            lasts_seconds = min(_LASTS_AT_MOST_SECONDS, _LASTS_TIMES * took_seconds)
            asyncio.get_running_loop().call_later(lasts_seconds, kept.pop, asked, None)
        else:
            kept.pop(asked, None)
        return made


async def iterate_cooperatively(items: Iterable[_T]) -> AsyncIterator[_T]:
    """Each of these; every few milliseconds all others on the event loop have their turn."""
    over_at = time.monotonic() + _TURN_SECONDS
    for thing in items:
        yield thing
        if time.monotonic() >= over_at:
            await asyncio.sleep(0)
            over_at = time.monotonic() + _TURN_SECONDS
