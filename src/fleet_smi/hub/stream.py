"""Who is listening: what changes in the fleet, encoded once and told to everybody.

Events lie in a ring that all listeners share; a listener is a place in it and nothing more. One
that has fallen out of the ring, or comes anew, is told the whole fleet and goes on from there.
So nobody waits for a slow listener, and it costs no memory.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Mapping
from functools import cached_property
from weakref import WeakSet

from fleet_smi.errors import Unmet
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.stream_diff import StreamDiff
from fleet_smi.wire.event import (
    GZIP_HEADER,
    KEEPALIVE,
    StreamUpdate,
    encode_event,
    format_event_id,
    gzip_block,
    parse_event_id,
)

# A whole fleet serves all who need one until so many changes have followed it.
_WHOLE_LASTS_EVENTS = 5
_TOLD_AT_ONCE = 100


class StreamFrame:
    """One event as bytes, compressed when somebody first wants it so."""

    def __init__(self, sequence: int, plain: bytes) -> None:
        self.sequence = sequence
        self.plain = plain

    @cached_property
    def gzipped(self) -> bytes:
        """The bytes as a block of any gzip stream."""
        return gzip_block(self.plain)


_PING = StreamFrame(0, KEEPALIVE)


class ReplayBuffer:
    """The latest events, one after the other, bounded in number and bytes."""

    def __init__(self, max_frames: int, max_bytes: int) -> None:
        self._most_events = max_frames
        self._most_bytes = max_bytes
        self._events: deque[StreamFrame] = deque()
        self._bytes = 0

    def append(self, frame: StreamFrame) -> None:
        """Take an event in, and let the oldest go where there is no room."""
        self._events.append(frame)
        self._bytes += len(frame.plain)
        while len(self._events) > self._most_events or self._bytes > self._most_bytes:
            self._bytes -= len(self._events.popleft().plain)

    def next_after(self, sequence: int) -> StreamFrame | None:
        """The event that follows this one; `None` when it is not here, or not any more."""
        if not self._events:
            return None
        place = sequence + 1 - self._events[0].sequence
        return self._events[place] if 0 <= place < len(self._events) else None


class Stream:
    """The changes of one fleet, and how many listen to them; lives on one event loop."""

    def __init__(
        self,
        fleet: FleetState,
        instance_id: str,
        *,
        max_subscribers: int = 500,
        max_frames: int = 120,
        max_bytes: int = 32 << 20,
        ping_seconds: float = 15.0,
    ) -> None:
        self.sequence = 0
        self.replay_buffer = ReplayBuffer(max_frames, max_bytes)
        self.ping_seconds = ping_seconds
        self.closed = False
        self._life = instance_id
        self._told = StreamDiff(fleet)
        self._most_listeners = max_subscribers
        self._listening: WeakSet[Subscriber] = WeakSet()
        # A line, the longest waiting first: a node that changes again keeps its place.
        self.pending: dict[str, None] = {}
        self._behind: list[str] = []
        self._now: float | None = None
        self._told_at = 0.0
        self.published = asyncio.Event()
        self._whole: asyncio.Future[StreamFrame] | None = None

    @property
    def subscriber_count(self) -> int:
        """How many listen; one that was dropped and never closed is not among them."""
        return len(self._listening)

    @property
    def numbers(self) -> Mapping[str, int]:
        """The number of each node in the stream, by node id."""
        return self._told.numbers

    def enqueue(self, changed: Collection[str], now: float) -> None:
        """There is news of these nodes; it waits to be published."""
        self.pending.update(dict.fromkeys(changed))
        self._now = now

    def publish(self, node_ids: Collection[str], now: float) -> None:
        """Tell everybody of these nodes, now; while nobody listens, their news waits on."""
        if self.subscriber_count:
            self._tell(node_ids, now)

    def subscribe(self, last_id: str | None = None, *, gzip: bool = False) -> "Subscriber":
        """Listen from after the event of this id on, or from now; raise `Unmet` when full."""
        if self.subscriber_count >= self._most_listeners:
            raise Unmet(f"{self.subscriber_count} are listening already, and no more may")
        if not self.subscriber_count and self._now is not None:
            self._behind = list(self.pending)
            self._catch_up(self._now)
        known = parse_event_id(last_id, self._life) if last_id else None
        place = known if known is not None and known <= self.sequence else 0
        listener = Subscriber(self, place, gzip=gzip)
        self._listening.add(listener)
        return listener

    def unsubscribe(self, subscriber: "Subscriber") -> None:
        """Listen no more."""
        self._listening.discard(subscriber)

    def close(self) -> None:
        """Tell everybody that nothing more will come."""
        self.closed = True
        self.published.set()

    async def full_frame(self) -> StreamFrame:
        """The whole fleet: as it is now, or was a moment ago with the changes since in the ring."""
        if self._whole is None or self._is_over(self._whole):
            self._whole = asyncio.ensure_future(self._made_whole())
        return await asyncio.shield(self._whole)

    async def _made_whole(self) -> StreamFrame:
        while self._behind and self._now is not None:
            self._catch_up(self._now)
            await asyncio.sleep(0)
        # Compressing it takes as long as hundreds of reports do: not on the event loop.
        count, fleet = self.sequence, self._told.full_state()
        return await asyncio.to_thread(_whole, count, self._id(count), self._told_at, fleet)

    def _catch_up(self, now: float) -> None:
        """Tell of some whose news waited while nobody listened; all would hold up the reports."""
        some, self._behind = self._behind[:_TOLD_AT_ONCE], self._behind[_TOLD_AT_ONCE:]
        self._tell(some, now)

    def _is_over(self, whole: asyncio.Future[StreamFrame]) -> bool:
        if not whole.done():
            return False
        if whole.exception() is not None:
            return True
        count = whole.result().sequence
        lasts = (
            self.sequence - count < _WHOLE_LASTS_EVENTS
            and self.replay_buffer.next_after(count) is not None
        )
        return not lasts and count != self.sequence

    def _tell(self, node_ids: Collection[str], now: float) -> None:
        told = sorted(node_ids)
        news = self._told.diff(told, now)
        for node_id in told:
            self.pending.pop(node_id, None)
        if self.sequence and news is None:
            return
        self.sequence += 1
        self._told_at = now
        # Before the first there is nothing that could have changed.
        if self.sequence > 1 and news is not None:
            plain = encode_event("change", self._id(self.sequence), now, news)
            self.replay_buffer.append(StreamFrame(self.sequence, plain))
        self.published.set()
        self.published = asyncio.Event()

    def _id(self, count: int) -> str:
        return format_event_id(self._life, count)


class Subscriber:
    """One who listens: a place in the ring."""

    def __init__(self, stream: Stream, cursor: int, *, gzip: bool) -> None:
        self._stream = stream
        self._place = cursor
        self._gzip = gzip
        self._opening = GZIP_HEADER if gzip else b""

    async def next_chunk(self) -> bytes | None:
        """What comes next, when it comes; a sign of life when nothing has for long.

        `None` when nothing more will come.
        """
        event = await self._event()
        if event is None:
            return None
        opening, self._opening = self._opening, b""
        return opening + (event.gzipped if self._gzip else event.plain)

    def close(self) -> None:
        """Listen no more."""
        self._stream.unsubscribe(self)

    async def _event(self) -> StreamFrame | None:
        stream = self._stream
        if self._place == stream.sequence and not stream.closed:
            try:
                async with asyncio.timeout(stream.ping_seconds):
                    await stream.published.wait()
            except TimeoutError:
                return _PING
        if stream.closed:
            return None
        event = stream.replay_buffer.next_after(self._place) or await stream.full_frame()
        self._place = event.sequence
        return event


def _whole(count: int, identity: str, taken_at: float, fleet: StreamUpdate) -> StreamFrame:
    event = StreamFrame(count, encode_event("fleet", identity, taken_at, fleet))
    event.gzipped  # noqa: B018  # nearly everybody wants it so
    return event
