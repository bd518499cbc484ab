"""The stream: every subscriber gets everything once, in order, and delays no other."""

import asyncio
import zlib
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.errors import Unmet
from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.stream import Stream, Subscriber
from fleet_smi.hub.time_slots import TimeSlots
from fleet_smi.model.stream_payload import FleetPayload
from fleet_smi.wire.event import KEEPALIVE
from fleet_smi.wire.event_reader import apply_event, decode_event
from tests.builders import NOON, gpu, snapshot

LIFE = "0a1b"
SOON = 30.0


class Hub:
    """A fleet whose one node draws one watt more with every report, and its stream."""

    def __init__(self, **limits: Any) -> None:
        self.fleet = FleetState()
        self.stream = Stream(self.fleet, LIFE, **limits)
        self.at = NOON

    def report(self, watts: float = 100.0, node: str = "gpu01") -> None:
        self.at += 1
        card = gpu(power_watts=watts)
        self.fleet.apply(snapshot(card, node=node, taken_at=self.at), self.at)
        self.stream.enqueue({f"id-of-{node}"}, self.at)
        self.stream.publish(self.stream.pending, self.at)


class Screen:
    """What one subscriber has received, applied as a page does it."""

    def __init__(self, listener: Subscriber, *, gzip: bool = False) -> None:
        self.listener = listener
        self.fleet: FleetPayload | None = None
        self.last_id: str | None = None
        self.kinds: list[str] = []
        self._unpacked = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress if gzip else bytes

    async def read(self) -> None:
        frame = await asyncio.wait_for(self.listener.next_chunk(), SOON)
        assert frame is not None
        self._take(self._unpacked(frame).decode())

    def _take(self, frame: str) -> None:
        fields = dict(line.split(": ", 1) for line in frame.split("\n") if line)
        self.last_id = fields["id"]
        self.kinds.append(fields["event"])
        known = None if fields["event"] == "fleet" else self.fleet
        self.fleet = apply_event(known, decode_event(fields["data"]))

    @property
    def watts(self) -> list[int | None]:
        assert self.fleet is not None
        return [row.parts[0].power_watts for row in self.fleet.figures.values()]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_a_new_subscriber_gets_the_full_state_and_then_the_changes() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.report(100.0)
        screen = Screen(hub.stream.subscribe())
        await screen.read()
        assert (screen.kinds, screen.watts, screen.last_id) == (["fleet"], [100], f"{LIFE}-1")
        hub.report(101.0)
        await screen.read()
        assert (screen.kinds[1:], screen.watts, screen.last_id) == (["change"], [101], f"{LIFE}-2")

    run(scenario())


def test_the_first_subscriber_of_a_large_fleet_does_not_block_the_loop() -> None:
    async def scenario() -> None:
        hub, turns = Hub(), 0
        for number in range(250):
            hub.report(node=f"gpu{number}")
        screen = Screen(hub.stream.subscribe())
        reading = asyncio.ensure_future(screen.read())
        while hub.stream.pending:
            turns += 1
            await asyncio.sleep(0)
        await reading
        assert turns > 1
        assert screen.kinds == ["fleet"]
        assert screen.fleet is not None
        assert len(screen.fleet.nodes) == 250

    run(scenario())


def test_a_change_of_state_is_published_before_the_figures_of_a_large_fleet() -> None:
    async def scenario() -> None:
        hub, slots = Hub(), TimeSlots(10, max_per_slot=10)
        everyone = [f"node-{number}" for number in range(1000)]
        hub.stream.enqueue(everyone, NOON)
        hub.stream.prioritize(everyone[-1])
        hub.stream.prioritize("removed meanwhile")
        due = hub.stream.due(slots)
        assert due[0] == everyone[-1]
        assert len(due) == len(set(due)) == 10
        assert everyone[-1] not in hub.stream.due(slots)  # its turn comes with the others

    run(scenario())


def test_a_subscriber_waits_for_the_next_change() -> None:
    async def scenario() -> None:
        hub = Hub()
        screen = Screen(hub.stream.subscribe())
        reading = asyncio.create_task(screen.read())
        await asyncio.sleep(0)
        assert not reading.done()
        hub.report(100.0)
        await reading
        assert screen.watts == [100]

    run(scenario())


def test_all_subscribers_share_the_same_bytes() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.report()
        plain = [hub.stream.subscribe() for _ in range(2)]
        packed = [hub.stream.subscribe(gzip=True) for _ in range(2)]
        for one in (*plain, *packed):
            await one.next_chunk()
        hub.report(101.0)
        for pair in (plain, packed):
            first, second = [await one.next_chunk() for one in pair]
            assert first is second

    run(scenario())


def test_a_gzipped_stream_is_equal_wherever_it_begins() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.report(100.0)
        early = Screen(hub.stream.subscribe(gzip=True), gzip=True)
        await early.read()
        hub.report(101.0)
        late = Screen(hub.stream.subscribe(f"{LIFE}-1", gzip=True), gzip=True)
        late.fleet = early.fleet
        hub.report(102.0)
        for _ in range(2):
            await early.read()
            await late.read()
        assert late.kinds == ["change", "change"]
        assert late.watts == early.watts == [102]

    run(scenario())


def test_a_subscriber_resumes_after_its_last_event() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.report(100.0)
        other = hub.stream.subscribe()
        screen = Screen(hub.stream.subscribe())
        await screen.read()
        screen.listener.close()
        for watts in (101.0, 102.0):
            hub.report(watts)
        screen.listener = hub.stream.subscribe(screen.last_id)
        await screen.read()
        await screen.read()
        assert (screen.kinds, screen.watts) == (["fleet", "change", "change"], [102])
        other.close()

    run(scenario())


def test_without_subscribers_nothing_is_encoded() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.report(100.0)
        screen = Screen(hub.stream.subscribe())
        await screen.read()
        screen.listener.close()
        for watts in (101.0, 102.0, 103.0):
            hub.report(watts)
        assert hub.stream.sequence == 1
        screen.listener = hub.stream.subscribe(screen.last_id)
        await screen.read()
        assert (screen.kinds[1:], screen.watts, screen.last_id) == (["change"], [103], f"{LIFE}-2")

    run(scenario())


@pytest.mark.parametrize("last_id", ["ffff-1", f"{LIFE}-999", f"{LIFE}-0", "x", f"{LIFE}-1 "])
def test_an_unknown_event_id_gets_the_full_state(last_id: str) -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.report()
        screen = Screen(hub.stream.subscribe(last_id))
        await screen.read()
        assert screen.kinds == ["fleet"]

    run(scenario())


def test_a_slow_subscriber_gets_the_full_state_again() -> None:
    async def scenario() -> None:
        hub = Hub(max_frames=3)
        hub.report(0.0)
        slow, quick = Screen(hub.stream.subscribe()), Screen(hub.stream.subscribe())
        await slow.read()
        await quick.read()
        for watts in range(1, 20):
            hub.report(float(watts))
            await quick.read()
        await slow.read()
        assert quick.kinds == ["fleet"] + ["change"] * 19
        assert slow.kinds == ["fleet", "fleet"]
        assert slow.watts == quick.watts == [19]

    run(scenario())


def test_the_replay_buffer_is_limited_in_bytes() -> None:
    async def scenario() -> None:
        hub = Hub(max_bytes=1000)
        hub.report(0.0)
        slow = Screen(hub.stream.subscribe())
        await slow.read()
        for watts in range(1, 20):
            hub.report(float(watts))
        assert hub.stream.replay_buffer.next_after(1) is None
        await slow.read()
        assert slow.kinds == ["fleet", "fleet"]

    run(scenario())


def test_concurrent_subscribers_share_one_encoding_of_the_full_state() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.report()
        crowd = [hub.stream.subscribe() for _ in range(20)]
        frames = await asyncio.gather(*[one.next_chunk() for one in crowd])
        assert all(frame is frames[0] for frame in frames)
        hub.report(101.0)
        late = Screen(hub.stream.subscribe())
        await late.read()
        await late.read()
        assert (late.kinds, late.watts) == (["fleet", "change"], [101])

    run(scenario())


def test_a_cancelled_subscriber_does_not_cancel_the_others() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.report()
        leaver, stayer = hub.stream.subscribe(), Screen(hub.stream.subscribe())
        leaving = asyncio.create_task(leaver.next_chunk())
        staying = asyncio.create_task(stayer.read())
        await asyncio.sleep(0)
        leaving.cancel()
        await staying
        assert stayer.kinds == ["fleet"]

    run(scenario())


def test_an_idle_stream_sends_keepalives() -> None:
    async def scenario() -> None:
        hub = Hub(ping_seconds=0.01)
        hub.report()
        plain, packed = hub.stream.subscribe(), hub.stream.subscribe(gzip=True)
        reader = zlib.decompressobj(31)
        await plain.next_chunk()
        reader.decompress(await packed.next_chunk() or b"")
        assert await plain.next_chunk() == KEEPALIVE
        assert reader.decompress(await packed.next_chunk() or b"") == KEEPALIVE

    run(scenario())


def test_the_number_of_subscribers_is_limited() -> None:
    async def scenario() -> None:
        hub = Hub(max_subscribers=1)
        first = hub.stream.subscribe()
        with pytest.raises(Unmet, match="limit of 1 subscribers"):
            hub.stream.subscribe()
        first.close()
        first.close()
        assert hub.stream.subscriber_count == 0
        hub.stream.subscribe().close()

    run(scenario())


def test_a_garbage_collected_subscriber_does_not_count() -> None:
    async def scenario() -> None:
        hub = Hub()
        listener = hub.stream.subscribe()
        assert hub.stream.subscriber_count == 1
        del listener
        assert hub.stream.subscriber_count == 0

    run(scenario())


moves = st.one_of(
    st.tuples(st.just("report"), st.sampled_from(["gpu01", "gpu02"]), st.integers(0, 5)),
    st.tuples(st.just("read"), st.integers(0, 2), st.just(0)),
    st.tuples(st.just("cut"), st.integers(0, 2), st.just(0)),
)


@given(st.lists(moves, max_size=40))
def test_every_subscriber_converges_to_the_same_state(
    played: list[tuple[str, Any, int]],
) -> None:
    async def scenario() -> None:
        hub = Hub(max_frames=3)
        hub.report()
        screens = [Screen(hub.stream.subscribe()) for _ in range(3)]
        for move, who, watts in played:
            if move == "report":
                hub.report(float(watts), who)
            elif move == "cut":
                screens[who].listener.close()
                screens[who].listener = hub.stream.subscribe(screens[who].last_id)
            elif screens[who].last_id != f"{LIFE}-{hub.stream.sequence}":
                await screens[who].read()
        for screen in screens:
            while screen.last_id != f"{LIFE}-{hub.stream.sequence}":
                await screen.read()
        newcomer = Screen(hub.stream.subscribe())
        while newcomer.last_id != f"{LIFE}-{hub.stream.sequence}":
            await newcomer.read()
        assert all(screen.fleet == newcomer.fleet for screen in screens)

    run(scenario())


def test_closing_the_stream_ends_every_subscriber() -> None:
    async def scenario() -> None:
        hub = Hub()
        hub.report()
        waiting, behind = hub.stream.subscribe(), hub.stream.subscribe()
        await waiting.next_chunk()
        ending = asyncio.create_task(waiting.next_chunk())
        await asyncio.sleep(0)
        hub.stream.close()
        assert await asyncio.wait_for(ending, SOON) is None
        assert await behind.next_chunk() is None

    run(scenario())
