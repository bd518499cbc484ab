"""The stream of changes: events encoded once, in a replay buffer shared by all subscribers.

A subscriber is only a cursor into the buffer. One that is new, or so slow that its place was
dropped from the buffer, gets the whole fleet and continues from there. So a slow subscriber
delays no other and costs no memory.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING
from weakref import WeakSet

from fleet_smi.errors import Unmet
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.query_threads import run_in_query_thread
from fleet_smi.hub.stream_diff import StreamDiff
from fleet_smi.hub.time_slots import TimeSlots
from fleet_smi.wire.event import (
    GZIP_HEADER,
    KEEPALIVE,
    StreamUpdate,
    encode_isolated,
    format_event_id,
    gzip_block,
    parse_event_id,
)

if TYPE_CHECKING:
    from fleet_smi.hub.sites.shown_fleet import ShownFleet

# An encoded full state is shared by new subscribers until this many changes have followed it.
_FULL_FRAME_LASTS_EVENTS = 5
# Nodes published per iteration of the event loop when the first subscriber arrives.
_CATCH_UP_NODES = 100
_CLIENT_SHARE = 4


class StreamFrame:
    """One encoded event, compressed when it is first needed."""

    def __init__(self, sequence: int, plain: bytes) -> None:
        self.sequence = sequence
        self.plain = plain

    @cached_property
    def gzipped(self) -> bytes:
        """The event as a block that fits into any gzip stream."""
        return gzip_block(self.plain)


_PING = StreamFrame(0, KEEPALIVE)  # it moves no cursor, so its number is not used


class ReplayBuffer:
    """The latest events in order, limited in number and bytes."""

    def __init__(self, max_frames: int, max_bytes: int) -> None:
        self._max_frames = max_frames
        self._max_bytes = max_bytes
        self._frames: deque[StreamFrame] = deque()
        self._bytes = 0

    def append(self, frame: StreamFrame) -> None:
        """Append an event, and drop the oldest ones that exceed the limits."""
        self._frames.append(frame)
        self._bytes += len(frame.plain)
        while len(self._frames) > self._max_frames or self._bytes > self._max_bytes:
            self._bytes -= len(self._frames.popleft().plain)

    def next_after(self, sequence: int) -> StreamFrame | None:
        """The event after this one; `None` if there is none yet or it was dropped."""
        if not self._frames:
            return None
        # Sequence numbers have no gaps, so the difference is the index.
        index = sequence + 1 - self._frames[0].sequence
        return self._frames[index] if 0 <= index < len(self._frames) else None


class Stream:
    """The changes of one fleet and their subscribers; lives on one event loop."""

    def __init__(
        self,
        fleet: "FleetState | ShownFleet",
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
        self._instance_id = instance_id
        self._fleet = fleet
        self._diff = StreamDiff(fleet)
        self._max_subscribers = max_subscribers
        # Weak: a subscriber that was dropped without `close` must not count for ever.
        self._subscribers: WeakSet[Subscriber] = WeakSet()
        # A queue, the longest waiting first: a node that changes again keeps its place.
        self.pending: dict[str, None] = {}
        self._urgent: dict[str, None] = {}
        self._backlog: list[str] = []
        self._changed_at: float | None = None
        self._published_at = 0.0
        self.published = asyncio.Event()
        self._full_frame: asyncio.Future[StreamFrame] | None = None

    @property
    def own(self) -> "Stream":
        """The stream of the nodes that report to this hub, for hubs that follow it."""
        return self

    @property
    def subscriber_count(self) -> int:
        """The number of subscribers."""
        return len(self._subscribers)

    @property
    def numbers(self) -> Mapping[str, int]:
        """The number of each node in the stream, by node id."""
        return self._diff.numbers

    def enqueue(self, changed: Collection[str], now: float) -> None:
        """Queue changed nodes to be published."""
        self.pending.update(dict.fromkeys(changed))
        self._changed_at = now

    def prioritize(self, node_id: str) -> None:
        """Publish a node before those of which only figures have changed."""
        self._urgent[node_id] = None

    def due(self, slots: TimeSlots) -> list[str]:
        """The nodes to publish in the next slot, the urgent ones among those pending first."""
        due, max_nodes = slots.due(self.pending), slots.max_per_slot
        if max_nodes is None or len(due) < max_nodes:
            self._urgent.clear()  # all have their turn within one round
            return due
        urgent = list(islice(self._urgent, max_nodes))
        for node_id in urgent:
            del self._urgent[node_id]
        first = [node_id for node_id in urgent if node_id in self.pending]
        return list(dict.fromkeys([*first, *due]))[:max_nodes]

    def publish(self, node_ids: Collection[str], now: float) -> None:
        """Publish the changes of these nodes; without subscribers they stay queued."""
        if self.subscriber_count:
            self._publish(node_ids, now)

    def subscribe(
        self, last_id: str | None = None, *, gzip: bool = False, client: str | None = None
    ) -> "Subscriber":
        """Subscribe from the event after `last_id`, or from now; raise `Unmet` if there are many.

        An id of another run of the hub, or of the future, starts from now. One `client`, as by
        its address, gets at most a quarter of all places.
        """
        if self.subscriber_count >= self._max_subscribers:
            raise Unmet(f"the limit of {self.subscriber_count} subscribers is reached")
        limit = max(1, self._max_subscribers // _CLIENT_SHARE)
        if client is not None and self._count_of(client) >= limit:
            raise Unmet(f"your address has {limit} open streams, which is the limit: close some")
        # Without a subscriber, changes were only queued. Some are published now, so that there is
        # an event to begin with; the rest before the full state is encoded.
        if not self.subscriber_count and self._changed_at is not None:
            self._backlog = list(self.pending)
            self._catch_up(self._changed_at)
        sequence = parse_event_id(last_id, self._instance_id) if last_id else None
        # 0 is before every event of the buffer: the subscriber gets the full state.
        cursor = sequence if sequence is not None and sequence <= self.sequence else 0
        subscriber = Subscriber(self, cursor, gzip=gzip, client=client)
        self._subscribers.add(subscriber)
        return subscriber

    def _count_of(self, client: str) -> int:
        return sum([subscriber.client == client for subscriber in self._subscribers])

    def unsubscribe(self, subscriber: "Subscriber") -> None:
        """Remove a subscriber."""
        self._subscribers.discard(subscriber)

    def close(self) -> None:
        """End the stream for every subscriber."""
        self.closed = True
        self.published.set()

    async def full_frame(self) -> StreamFrame:
        """The whole fleet, encoded once for all who need it at about the same time.

        It may be a few events old: the changes since are in the replay buffer.
        """
        if self._full_frame is None or self._is_stale(self._full_frame):
            self._full_frame = asyncio.ensure_future(self._encode_full_frame())
        # Shielded: a subscriber that disconnects must not cancel what others wait for.
        return await asyncio.shield(self._full_frame)

    async def _encode_full_frame(self) -> StreamFrame:
        while self._backlog and self._changed_at is not None:
            self._catch_up(self._changed_at)
            await asyncio.sleep(0)
        # Read together, with nothing awaited in between: the state is that of the number.
        # Compressing it takes as long as hundreds of reports do: not on the event loop.
        sequence, make_state = self.sequence, self._diff.capture()
        frame, failures = await run_in_query_thread(
            _full_frame, sequence, self._event_id(sequence), self._published_at, make_state
        )
        for number, error in failures.items():
            self._diff.drop(number, error)
        return frame

    def _catch_up(self, now: float) -> None:
        """Publish some of what changed while there was no subscriber; all would delay reports."""
        some, self._backlog = self._backlog[:_CATCH_UP_NODES], self._backlog[_CATCH_UP_NODES:]
        self._publish(some, now)

    def _is_stale(self, full_frame: asyncio.Future[StreamFrame]) -> bool:
        if not full_frame.done():
            return False
        if full_frame.exception() is not None:
            return True
        sequence = full_frame.result().sequence
        if sequence == self.sequence:
            return False
        # Usable only while its subscriber can continue with the next event of the buffer.
        has_next = self.replay_buffer.next_after(sequence) is not None
        return not has_next or self.sequence - sequence >= _FULL_FRAME_LASTS_EVENTS

    def _publish(self, node_ids: Collection[str], now: float) -> None:
        ordered = sorted(node_ids)
        for node_id in ordered:
            self.pending.pop(node_id, None)
        update = self._diff.diff(ordered, now)
        faults = self._fleet.faults
        # The first always counts: a subscriber of an empty fleet needs a state, too.
        if self.sequence and update is None:
            return
        self.sequence += 1
        self._published_at = now
        # The first is only the base of the first full state: there is nothing before it.
        if self.sequence > 1 and update is not None:
            plain, failures = encode_isolated("change", self._event_id(self.sequence), now, update)
            for number, error in failures.items():
                self._diff.drop(number, error)
            self.replay_buffer.append(StreamFrame(self.sequence, plain))
        # Wakes the present waiters; a subscriber that waits from here on waits for the next event.
        self.published.set()
        self.published = asyncio.Event()
        if faults:
            for node_id in ordered:
                if node_id not in self._diff.failed:
                    faults.clear("stream", node_id)

    def _event_id(self, sequence: int) -> str:
        return format_event_id(self._instance_id, sequence)


class Subscriber:
    """One client of the stream: a cursor into the replay buffer."""

    def __init__(
        self, stream: Stream, cursor: int, *, gzip: bool, client: str | None = None
    ) -> None:
        self.client = client
        self._stream = stream
        self._cursor = cursor
        self._gzip = gzip
        self._header = GZIP_HEADER if gzip else b""

    async def next_chunk(self) -> bytes | None:
        """Wait for the next event, or send a keepalive after a while; `None` at the end."""
        frame = await self._next_frame()
        if frame is None:
            return None
        # One gzip header per connection; the frames after it are shared by all subscribers.
        header, self._header = self._header, b""
        return header + (frame.gzipped if self._gzip else frame.plain)

    def close(self) -> None:
        """Unsubscribe."""
        self._stream.unsubscribe(self)

    async def _next_frame(self) -> StreamFrame | None:
        stream = self._stream
        if self._cursor == stream.sequence and not stream.closed:
            try:
                async with asyncio.timeout(stream.ping_seconds):
                    await stream.published.wait()
            except TimeoutError:
                return _PING
        if stream.closed:
            return None
        frame = stream.replay_buffer.next_after(self._cursor) or await stream.full_frame()
        self._cursor = frame.sequence
        return frame


def _full_frame(
    sequence: int, event_id: str, taken_at: float, make_state: Callable[[], StreamUpdate]
) -> tuple[StreamFrame, dict[int, Exception]]:
    plain, failures = encode_isolated("fleet", event_id, taken_at, make_state())
    frame = StreamFrame(sequence, plain)
    frame.gzipped  # noqa: B018  # compressed here, in the thread: nearly every client wants it
    return frame, failures
