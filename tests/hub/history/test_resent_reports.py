"""Reports that agents resend after a hub was killed are counted once."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.model.snapshot import Snapshot
from tests.builders import HOUR, NOON, gpu, process, snapshot
from tests.hub.history.in_memory_history import RecordedFleet

NODE, UUID = "id-of-gpu01", gpu().uuid


def sample(number: int, pace: float = 1.0) -> Snapshot:
    made = snapshot(gpu(), sequence=number, run_id="run", taken_at=NOON + number * pace)
    return replace(made, interval_seconds=pace)


def remembered(watched: RecordedFleet) -> NodeCheckpoint:
    found = watched.fleet.checkpoint(NODE)
    assert found is not None
    return found


def killed(watched: RecordedFleet, memory: NodeCheckpoint) -> RecordedFleet:
    """The next life of a hub that remembers less of the node than its history knows."""
    watched.history.schedule_save([NODE])
    watched.history.flush()
    fleet = FleetState()
    fleet.restore(memory)
    return RecordedFleet(watched.stored, fleet)


def ended(watched: RecordedFleet, at: float) -> float:
    """The seconds of the GPU, once nothing more comes."""
    for _ in range(2):  # what came late is done
        watched.history.tick(at)
        at += 2.0
    watched.history.remove_node(NODE, at)
    watched.history.tick(at + 2.0)
    return watched.stored.gpu_seconds(gpu_key=(NODE, UUID))


def test_a_hub_killed_within_a_backlog_records_the_rest_of_it() -> None:
    watched = RecordedFleet()
    for number in range(10):
        watched.take(sample(number), NOON + number)
    before = remembered(watched)
    watched.take(
        sample(100), NOON + 100
    )  # received by another transport, before what the agent buffered
    after = killed(watched, before)
    for number in range(10, 110):
        after.take(sample(number), NOON + number + 0.01)
    assert ended(after, NOON + 109.5) == pytest.approx(110.0, abs=4.0)
    for one, following in pairwise(after.stored.periods(UUID)):
        assert following.start - (one.end or 0.0) == pytest.approx(0.0, abs=0.05)


def test_a_resent_report_with_a_later_time_hides_none_that_follow() -> None:
    watched = RecordedFleet()
    for number in range(10):
        watched.take(sample(number), NOON + number)
    after = killed(watched, remembered(watched))
    after.history.tick(NOON + 15)  # silent, for now: the last one is counted up to 10 s
    busy = replace(sample(10), gpus=(gpu(busy_percent=90.0, processes=(process(1),)),))
    after.take(replace(sample(11), sequence=10), NOON + 9.01)
    after.take(replace(busy, sequence=11), NOON + 9.99)
    after.take(replace(busy, sequence=12), NOON + 11.0)
    after.history.schedule_save([NODE])
    after.history.flush()
    (going_on,) = [one for _, one in after.history.open_batch().periods]
    assert (going_on.state, going_on.start) == ("busy", NOON + 10)


def test_late_usage_is_added_to_the_hour_in_which_a_node_resumes() -> None:
    watched = RecordedFleet()
    watched.take(sample(0, HOUR), NOON)
    watched.take(sample(6, HOUR), NOON + 6 * HOUR)
    for number in range(1, 6):
        watched.take(sample(number, HOUR), NOON + number * HOUR)
    for seconds in (1.0, 4.0):
        watched.history.tick(NOON + 6 * HOUR + seconds)
    watched.take(sample(7, HOUR), NOON + 7 * HOUR)
    watched.history.remove_node(NODE, NOON + 7 * HOUR)
    watched.history.tick(NOON + 7 * HOUR + 9)
    assert watched.stored.gpu_seconds(gpu_key=(NODE, UUID)) == pytest.approx(7 * HOUR)


def test_a_long_resent_backlog_is_not_taken_for_a_clock_step() -> None:
    watched = RecordedFleet()
    watched.take(sample(0, 60.0), NOON)
    before = remembered(watched)
    for number in range(1, 500):
        watched.take(sample(number, 60.0), NOON + 60 * number)
    after = killed(watched, before)
    for number in range(1, 510):
        after.take(sample(number, 60.0), NOON + 60 * number + 0.5)
    assert ended(after, NOON + 60 * 509) == pytest.approx(60 * 510, abs=120)
    for one, following in pairwise(after.stored.periods(UUID)):
        assert one.end == following.start
