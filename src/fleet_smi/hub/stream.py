"""Who is listening: what changes in the fleet, encoded once and told to everybody.

Events lie in a ring that all listeners share; a listener is a place in it and nothing more. One
that has fallen out of the ring, or comes anew, is told the whole fleet and goes on from there.
So nobody waits for a slow listener, and it costs no memory.
"""

import asyncio
from collections import deque
from collections.abc import Collection
from functools import cached_property
from weakref import WeakSet

from fleet_smi.errors import Unmet
from fleet_smi.hub.fleet import Fleet
from fleet_smi.hub.told import Told
from fleet_smi.wire.event import (
    GZIP_HEADER,
    PING,
    News,
    count_of,
    encode_event,
    event_id,
    gzip_block,
)

# A whole fleet serves all who need one until so many changes have followed it.
_WHOLE_LASTS_EVENTS = 5
_TOLD_AT_ONCE = 100


class Event:
    """One event as bytes, compressed when somebody first wants it so."""

    def __init__(self, count: int, plain: bytes) -> None:
        self.count = count
        self.plain = plain

    @cached_property
    def packed(self) -> bytes:
        """The bytes as a block of any gzip stream."""
        return gzip_block(self.plain)


_PING = Event(0, PING)


class Ring:
    """The latest events, one after the other, bounded in number and bytes."""

    def __init__(self, most_events: int, most_bytes: int) -> None:
        self._most_events = most_events
        self._most_bytes = most_bytes
        self._events: deque[Event] = deque()
        self._bytes = 0

    def append(self, event: Event) -> None:
        """Take an event in, and let the oldest go where there is no room."""
        self._events.append(event)
        self._bytes += len(event.plain)
        while len(self._events) > self._most_events or self._bytes > self._most_bytes:
            self._bytes -= len(self._events.popleft().plain)

    def after(self, count: int) -> Event | None:
        """The event that follows this one; `None` when it is not here, or not any more."""
        if not self._events:
            return None
        place = count + 1 - self._events[0].count
        return self._events[place] if 0 <= place < len(self._events) else None


class Stream:
    """The changes of one fleet, and how many listen to them; lives on one event loop."""

    def __init__(
        self,
        fleet: Fleet,
        life: str,
        *,
        most_listeners: int = 500,
        most_events: int = 120,
        most_bytes: int = 32 << 20,
        ping_seconds: float = 15.0,
    ) -> None:
        self.count = 0
        self.ring = Ring(most_events, most_bytes)
        self.ping_seconds = ping_seconds
        self.closed = False
        self._life = life
        self._told = Told(fleet)
        self._most_listeners = most_listeners
        self._listening: WeakSet[Listener] = WeakSet()
        # A line, the longest waiting first: a node that changes again keeps its place.
        self.waiting: dict[str, None] = {}
        self._behind: list[str] = []
        self._now: float | None = None
        self._told_at = 0.0
        self.turned = asyncio.Event()
        self._whole: asyncio.Future[Event] | None = None

    @property
    def listeners(self) -> int:
        """How many listen; one that was dropped and never closed is not among them."""
        return len(self._listening)

    def note(self, changed: Collection[str], now: float) -> None:
        """There is news of these nodes; it waits to be published."""
        self.waiting.update(dict.fromkeys(changed))
        self._now = now

    def publish(self, node_ids: Collection[str], now: float) -> None:
        """Tell everybody of these nodes, now; while nobody listens, their news waits on."""
        if self.listeners:
            self._tell(node_ids, now)

    def listen(self, last_id: str | None = None, *, gzip: bool = False) -> "Listener":
        """Listen from after the event of this id on, or from now; raise `Unmet` when full."""
        if self.listeners >= self._most_listeners:
            raise Unmet(f"{self.listeners} are listening already, and no more may")
        if not self.listeners and self._now is not None:
            self._behind = list(self.waiting)
            self._catch_up(self._now)
        known = count_of(last_id, self._life) if last_id else None
        place = known if known is not None and known <= self.count else 0
        listener = Listener(self, place, gzip=gzip)
        self._listening.add(listener)
        return listener

    def leave(self, listener: "Listener") -> None:
        """Listen no more."""
        self._listening.discard(listener)

    def close(self) -> None:
        """Tell everybody that nothing more will come."""
        self.closed = True
        self.turned.set()

    async def whole(self) -> Event:
        """The whole fleet: as it is now, or was a moment ago with the changes since in the ring."""
        if self._whole is None or self._is_over(self._whole):
            self._whole = asyncio.ensure_future(self._made_whole())
        return await asyncio.shield(self._whole)

    async def _made_whole(self) -> Event:
        while self._behind and self._now is not None:
            self._catch_up(self._now)
            await asyncio.sleep(0)
        # Compressing it takes as long as hundreds of reports do: not on the event loop.
        count, fleet = self.count, self._told.whole()
        return await asyncio.to_thread(_whole, count, self._id(count), self._told_at, fleet)

    def _catch_up(self, now: float) -> None:
        """Tell of some whose news waited while nobody listened; all would hold up the reports."""
        some, self._behind = self._behind[:_TOLD_AT_ONCE], self._behind[_TOLD_AT_ONCE:]
        self._tell(some, now)

    def _is_over(self, whole: asyncio.Future[Event]) -> bool:
        if not whole.done():
            return False
        if whole.exception() is not None:
            return True
        count = whole.result().count
        lasts = self.count - count < _WHOLE_LASTS_EVENTS and self.ring.after(count) is not None
        return not lasts and count != self.count

    def _tell(self, node_ids: Collection[str], now: float) -> None:
        told = sorted(node_ids)
        news = self._told.update(told, now)
        for node_id in told:
            self.waiting.pop(node_id, None)
        if self.count and news is None:
            return
        self.count += 1
        self._told_at = now
        # Before the first there is nothing that could have changed.
        if self.count > 1 and news is not None:
            plain = encode_event("change", self._id(self.count), now, news)
            self.ring.append(Event(self.count, plain))
        self.turned.set()
        self.turned = asyncio.Event()

    def _id(self, count: int) -> str:
        return event_id(self._life, count)


class Listener:
    """One who listens: a place in the ring."""

    def __init__(self, stream: Stream, place: int, *, gzip: bool) -> None:
        self._stream = stream
        self._place = place
        self._gzip = gzip
        self._opening = GZIP_HEADER if gzip else b""

    async def next(self) -> bytes | None:
        """What comes next, when it comes; a sign of life when nothing has for long.

        `None` when nothing more will come.
        """
        event = await self._event()
        if event is None:
            return None
        opening, self._opening = self._opening, b""
        return opening + (event.packed if self._gzip else event.plain)

    def close(self) -> None:
        """Listen no more."""
        self._stream.leave(self)

    async def _event(self) -> Event | None:
        stream = self._stream
        if self._place == stream.count and not stream.closed:
            try:
                async with asyncio.timeout(stream.ping_seconds):
                    await stream.turned.wait()
            except TimeoutError:
                return _PING
        if stream.closed:
            return None
        event = stream.ring.after(self._place) or await stream.whole()
        self._place = event.count
        return event


def _whole(count: int, identity: str, taken_at: float, fleet: News) -> Event:
    event = Event(count, encode_event("fleet", identity, taken_at, fleet))
    event.packed  # noqa: B018  # nearly everybody wants it so
    return event
