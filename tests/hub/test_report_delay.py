"""The delay of reports by the hub itself: the longest of late, in whole seconds."""

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.report_delay import ReportDelay
from tests.builders import NOON, gpu, snapshot
from tests.hub.accounts import ManualClock


def test_the_longest_delay_counts_for_a_while() -> None:
    clock = ManualClock()
    delay = ReportDelay(clock)
    delay.record(0.1)
    assert delay.seconds == 0.0, "every hub is late by a little"
    delay.record(4.2)
    delay.record(1.0)
    assert delay.seconds == 5.0
    clock.now += 29.0
    assert delay.seconds == 5.0
    clock.now += 2.0
    assert delay.seconds == 0.0
    delay.record(1e9)
    assert delay.seconds == 120.0, "a node that has gone must be noticed in the end"


def test_a_node_is_silent_only_after_the_hubs_own_delay() -> None:
    fleet = FleetState()
    fleet.apply(snapshot(gpu(), taken_at=NOON, interval_seconds=1.0), NOON)
    fleet.take_dirty()

    def state(at: float, delay: float) -> tuple[bool, str, set[str]]:
        fleet.tick(at, delay)
        (node,) = fleet.view(at).nodes
        return node.silent, node.gpus[0].verdict.state, fleet.take_dirty()

    assert state(NOON + 5.0, 4.0) == (False, "free", set())
    assert state(NOON + 8.0, 4.0) == (True, "unknown", {"id-of-gpu01"})
    # Busy again: what is known of it may be late. It is published each time that it changes.
    assert state(NOON + 9.0, 10.0) == (False, "free", {"id-of-gpu01"})
    assert state(NOON + 10.0, 0.0) == (True, "unknown", {"id-of-gpu01"})
    assert state(NOON + 11.0, 0.0) == (True, "unknown", set())
