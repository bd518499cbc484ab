"""The agent's ticker: no drift, no catching up, slower when requested."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet_smi.model.snapshot import Snapshot
from fleet_smi.node.agent import MAX_INTERVAL_SECONDS, Agent, Ticker
from fleet_smi.node.reader import Reader
from fleet_smi.node.reader_process import spawn_worker
from fleet_smi.node.sampler import Sampler


def test_ticks_do_not_drift() -> None:
    ticks, now = Ticker(0.1, 50.0), 50.0
    for count in range(1, 1001):
        now = ticks.next_after(now + 0.0004)
        assert now == 50.0 + count * 0.1


def test_missed_ticks_are_skipped() -> None:
    ticks = Ticker(2.0, 0.0)
    assert [ticks.next_after(now) for now in (0.5, 9.1, 9.2)] == [2.0, 10.0, 12.0]


@given(
    interval=st.floats(0.1, 300.0),
    anchor=st.floats(0, 1e7),
    delays=st.lists(st.floats(0, 1000), max_size=50),
)
def test_a_tick_is_in_the_future_and_comes_once(
    interval: float, anchor: float, delays: list[float]
) -> None:
    ticks, now, before = Ticker(interval, anchor), anchor, anchor
    for delay in delays:
        now = max(now, before) + delay
        due = ticks.next_after(now)
        assert due > before
        assert now - 1e-6 <= due <= now + 2 * interval + 1e-6
        before = due


class Enough(Exception):
    """Raised to stop the agent."""


class Listener:
    """An outlet that receives a few snapshots and then stops the agent."""

    name = "listener"

    def __init__(self, enough: int, requested_interval_seconds: float | None = None) -> None:
        self.requested_interval_seconds = requested_interval_seconds
        self.received: list[Snapshot] = []
        self.at: list[float] = []
        self._enough = enough

    def publish(self, snapshot: Snapshot) -> None:
        self.received.append(snapshot)
        self.at.append(time.monotonic())
        if len(self.received) == self._enough:
            raise Enough

    def deliver(self, snapshot: Snapshot) -> None:
        self.received.append(snapshot)

    def close(self) -> None:
        pass


def lived(listener: Listener, interval_seconds: float) -> Listener:
    sampler = Sampler(
        Reader(spawn_worker), subjects=("host",), run_id="one life", labels={"rack": "a"}
    )
    agent = Agent(sampler, [listener], interval_seconds=interval_seconds)
    with pytest.raises(Enough):
        agent.run()
    agent.close()
    return listener


def test_snapshots_of_one_run_are_numbered_and_labelled() -> None:
    received = lived(Listener(3), 0.1).received
    assert [each.sequence for each in received] == [1, 2, 3]
    assert {each.run_id for each in received} == {"one life"}
    assert received[0].labels == {"rack": "a"}
    assert received[0].interval_seconds == 0.1


def test_the_hub_may_request_a_slower_interval_but_not_a_faster_one() -> None:
    assert [each.interval_seconds for each in lived(Listener(2, 0.3), 0.1).received] == [0.1, 0.3]
    assert [each.interval_seconds for each in lived(Listener(2, 0.01), 0.1).received] == [0.1, 0.1]


def test_requested_intervals_cannot_silence_an_agent() -> None:
    agent = Agent(Sampler(Reader(spawn_worker)), [Listener(1, 1e9)], interval_seconds=2.0)
    assert agent._effective_interval_seconds() == MAX_INTERVAL_SECONDS
