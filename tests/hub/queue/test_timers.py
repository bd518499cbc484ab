"""Timers of the queue: clocks that are set, restarts, and askers that fall silent."""

from msgspec.structs import replace

from fleet_smi.hub.queue.timers import QueueTimers
from tests.builders import NOON
from tests.model.queue.entries import entry, offer


class Clock:
    """A monotonic clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_an_asker_is_gone_when_it_was_not_heard_of_for_its_time() -> None:
    clock, waiting = Clock(), entry(1)
    timers = QueueTimers(clock)
    timers.sync([waiting], NOON)
    clock.seconds += 59
    timers.hear(waiting.id)
    clock.seconds += 59
    assert not timers.is_gone(waiting)
    # Another hub has heard of it, and has saved that.
    timers.sync([replace(waiting, seen_at=NOON + 118)], NOON + 118)
    clock.seconds += 59
    assert not timers.is_gone(waiting)
    clock.seconds += 2
    assert timers.is_gone(waiting)


def test_a_clock_that_is_set_neither_ends_nor_extends_anything() -> None:
    clock, offered = Clock(), entry(1, offer=offer("GPU-0", until=NOON + 30))
    timers = QueueTimers(clock)
    timers.sync([offered], NOON)
    for wall in (NOON + 86_400, NOON - 86_400):
        timers.sync([offered], wall)
        assert not timers.is_expired(offered)
        assert not timers.is_gone(offered)
        assert timers.seconds_left(offered) == 30
    clock.seconds += 30
    assert timers.is_expired(offered)


def test_after_a_restart_an_offer_has_what_was_left_of_its_time_and_a_moment_at_least() -> None:
    offered = entry(1, offer=offer("GPU-0", until=NOON + 30))
    for wall, left in ((NOON + 10, 20.0), (NOON + 3600, 10.0), (NOON - 3600, 30.0)):
        timers = QueueTimers(Clock())
        timers.sync([offered], wall)
        assert timers.seconds_left(offered) == left
        assert not timers.is_gone(offered)
