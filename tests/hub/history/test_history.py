"""What happened to a node, told by its reports: periods, people, silence."""

import msgspec
import pytest

from fleet_smi.hub.fleet import Fleet
from fleet_smi.hub.history.rows import Checkpoint
from fleet_smi.model.history import NOBODY
from fleet_smi.model.people import UNSEEN
from fleet_smi.model.units import GIB
from tests.builders import HOUR, MINUTE, NOON, gpu, instance, process, snapshot
from tests.hub.history.kept import Kept, Watched, times
from tests.hub.history.stories import close
from tests.hub.history.telling import FIRST, NODE, Story, working


def test_a_period_ends_when_somebody_comes_and_begins_anew_when_they_leave() -> None:
    story = Story()
    story.go_on(0, 5, gpu())
    story.go_on(5, 12, working(1))
    story.go_on(12, 20, gpu())
    story.silence(100)
    told = [
        (one.state, [holder.user for holder in one.holders]) for one in story.kept.periods(FIRST)
    ]
    assert told == [("free", []), ("busy", ["alice"]), ("free", [])]
    assert times(story.kept.periods(FIRST)) == [(0, 5), (5, 12), (12, 20)]
    (occupancy,) = story.kept.occupancies()
    assert (occupancy.sums.gpu_seconds, occupancy.certain) == (7.0, True)


def test_what_goes_on_is_told_to_who_asks() -> None:
    story = Story()
    story.go_on(0, 25, working(1))
    story.silence(24)
    opened = story.watched.history.open()
    assert [(place, one.end) for place, one in opened.periods] == [((NODE, FIRST), None)]
    assert [one.end for one in opened.presence] == [None]
    assert [one.holder.pid for _, one in opened.occupancies] == [1]
    assert [(row.user, row.sums.gpu_seconds) for row in opened.usage] == [("alice", 24.0)]
    assert story.kept.periods(FIRST) == []


def test_silence_ends_all_for_now_and_says_that_it_is_not_sure() -> None:
    story = Story()
    story.go_on(0, 5, working(1))
    story.silence(60)
    (period,), (occupancy,), (heard,) = (
        story.kept.periods(FIRST),
        story.kept.occupancies(),
        story.kept.presence(),
    )
    assert not (period.certain or occupancy.certain or heard.certain)
    assert times([period, occupancy, heard]) == [(0, 5)] * 3


def test_the_same_process_after_a_gap_goes_on_and_the_gap_is_not_counted() -> None:
    story = Story()
    story.go_on(0, 5, working(1))
    story.silence(60)
    story.go_on(100, 110, working(1))
    story.go_on(110, 112, gpu())
    story.silence(112)
    (occupancy,) = story.kept.occupancies()
    assert times([occupancy]) == [(0, 110)]
    assert occupancy.certain
    assert occupancy.sums.gpu_seconds == close(15.0)
    assert times(story.kept.periods(FIRST)) == [(0, 5), (100, 110)]


def test_another_process_of_the_same_number_is_another() -> None:
    story = Story()
    story.go_on(0, 5, gpu(processes=(process(1, started_at=NOON - 100),), busy_percent=95.0))
    again = gpu(processes=(process(1, started_at=NOON + 4.9 + 6),), busy_percent=95.0)
    for minute in range(3):  # nothing else tells them apart: it is seen when rows are made
        story.go_on(5 + 60 * minute, 65 + 60 * minute, again)
        story.silence(64 + 60 * minute)
    story.silence(300)
    first, second = story.kept.occupancies()
    assert first.sums.gpu_seconds + second.sums.gpu_seconds == close(185.0)
    assert second.start <= NOON + 130


def test_two_people_share_a_gpu_in_equal_parts_and_their_processes_share_theirs() -> None:
    story = Story()
    people = (process(1), process(2), process(3, user="bob"))
    story.go_on(0, 12, gpu(processes=people, busy_percent=50.0, power_watts=300.0))
    story.silence(100)
    kept = story.kept
    assert (kept.seconds(user="alice"), kept.seconds(user="bob")) == close((6.0, 6.0))
    assert [one.sums.gpu_seconds for one in kept.occupancies()] == close([3.0, 3.0, 6.0])
    assert sum(one.sums.energy_joules for one in kept.occupancies()) == close(3600.0)
    assert sum(one.sums.busy_seconds for one in kept.occupancies()) == close(6.0)


def test_memory_is_the_mean_over_time_and_the_peak() -> None:
    story = Story()
    for start, end, gibibytes in ((0, 5, 10), (5, 10, 30), (10, 20, 20)):
        people = (process(1, gpu_memory_bytes=gibibytes * GIB),)
        story.go_on(start, end, gpu(processes=people, busy_percent=95.0))
    story.silence(100)
    (occupancy,) = story.kept.occupancies()
    assert occupancy.mean_memory_bytes == 20 * GIB
    assert occupancy.peak_memory_bytes == 30 * GIB
    assert len(story.kept.periods(FIRST)) == 1


def test_work_that_nobody_is_seen_at_is_somebodys() -> None:
    story = Story()
    hidden = gpu(processes=None, busy_percent=99.0, memory_used_bytes=40 * GIB)
    story.go_on(0, 10, hidden)
    story.silence(100)
    states = {row.state for row in story.kept.usage()}
    expected = UNSEEN if states & {"busy", "held"} else NOBODY
    assert story.kept.seconds(user=expected) == close(10.0)


def test_an_instance_is_its_part_of_a_gpu_and_all_parts_are_the_whole() -> None:
    story = Story()
    big = instance(1, profile="4g.40gb", processes=(process(1),))
    small = instance(2, profile="1g.10gb", processes=(process(2, user="bob"),))
    everybody = (process(1), process(2, user="bob"))
    card = gpu(mig_mode=True, instances=(big, small), processes=everybody, busy_percent=None)
    story.go_on(0, 14, card)
    story.silence(100)
    kept = story.kept
    assert kept.seconds(user="alice") == close(14 * 4 / 7)
    assert kept.seconds(user="bob") == close(14 * 1 / 7)
    assert kept.seconds() == close(14.0)
    assert kept.gpus[NODE, small.uuid].parent == FIRST
    assert {row.uuids for row in kept.series()} == {(FIRST, big.uuid, small.uuid)}


def test_a_gpu_that_is_gone_is_broken_and_the_others_go_on() -> None:
    story = Story()
    story.go_on(0, 15, working(1), gpu(1))
    story.go_on(15, 30, working(1))
    story.silence(100)
    assert times(story.kept.periods(FIRST)) == [(0, 30)]
    states = [one.state for one in story.kept.periods("GPU-00000001")]
    assert states == ["free", "broken"]


def test_a_gpu_that_moved_to_another_node_has_ended_here() -> None:
    story = Story()
    story.go_on(0, 15, working(1), gpu(1))
    story.go_on(15, 20, working(1))
    there = Story(node_id="id-of-gpu02", node="gpu02")
    there.watched = story.watched
    for second in range(20, 30):
        there.tell(second, gpu(1))
        story.tell(second, working(1))
    story.silence(100)
    assert times(story.kept.periods("GPU-00000001")) == [(0, 15), (15, 20)]
    assert times(story.kept.periods("GPU-00000001", "id-of-gpu02")) == [(20, 30)]


def test_a_clock_that_is_set_back_counts_no_second_twice() -> None:
    story = Story()
    story.go_on(0, 100, working(1))
    for offset in range(80):  # by a minute
        story.watched.take(
            snapshot(working(1), sequence=200 + offset, run_id="run", taken_at=NOON + offset),
            NOON + 40 + offset,
        )
    story.silence(200)
    assert story.kept.seconds(user="alice") == close(120.0)
    assert times(story.kept.periods(FIRST)) == [(0, 120)]


def test_a_clock_that_was_years_ahead_does_not_stop_history() -> None:
    story = Story()
    story.go_on(1e8, 1e8 + 10, working(1))
    story.go_on(0, 30, working(1))
    story.silence(100)
    assert times(story.kept.periods(FIRST)) == [(0, 30), (1e8, 1e8 + 10)]


def test_a_node_that_was_removed_has_ended_and_is_forgotten() -> None:
    story = Story()
    story.go_on(0, 15, working(1))
    story.watched.history.forget(NODE, NOON + 14.5)
    story.silence(15)
    assert times(story.kept.periods(FIRST)) == [(0, 14.5)]
    assert times(story.kept.presence()) == [(0, 14.5)]
    assert story.kept.checkpoints() == []
    assert story.watched.history.open().periods == []
    assert list(story.kept.moments.values())[-1].nodes == 0


def test_every_minute_the_fleet_is_counted() -> None:
    story = Story()
    other = Story(node_id="id-of-gpu02", node="gpu02")
    other.watched = story.watched
    for second in range(180):
        story.tell(second, working(1), gpu(1))
        if second < 90:
            other.tell(second, gpu(2))
        story.silence(second)
    counted = [
        (one.nodes, one.nodes_reporting, one.gpus["free"], one.gpus["busy"])
        for one in story.kept.moments.values()
    ]
    first = NOON // MINUTE * MINUTE
    assert list(story.kept.moments) == [first, first + 60, first + 120, first + 180][: len(counted)]
    assert counted[1] == (2, 2, 2.0, 1.0)
    assert counted[-1] == (2, 1, 1.0, 1.0)


def test_names_labels_and_gpus_are_told_once_and_when_they_change() -> None:
    story = Story(labels={"room": "a"})
    story.go_on(0, 30, gpu(), gpu(1))
    story.silence(29)
    assert sum(len(batch.gpus) for batch in story.kept.batches) == 2
    story.watched.fleet.label(NODE, "renamed", {"group": "vision"})
    story.watched.history.renamed(NODE)
    story.go_on(30, 50, gpu(), gpu(1))
    story.silence(60)
    assert story.kept.nodes[NODE].name == "renamed"
    assert story.kept.nodes[NODE].labels == {"room": "a", "group": "vision"}


def test_more_reports_than_can_be_looked_at_closely_are_still_all_counted() -> None:
    story = Story(interval_seconds=0.125)
    watched = story.watched
    for eighth in range(8 * 40):
        at = NOON + eighth / 8
        card = working(1, busy_percent=80.0) if 81 <= eighth < 243 else gpu(busy_percent=0.0)
        story.tell(eighth / 8, card)
        for other in range(1, 50):
            told = snapshot(gpu(other), node_id=f"id-{other}", sequence=eighth + 1, run_id="run")
            watched.take(told, at)
        watched.history.tick(at)
    assert watched.history.counts()["history_spacing_seconds"] == 2.0
    story.silence(50)
    kept = story.kept
    assert times(kept.periods(FIRST)) == [(0, 10.125), (10.125, 30.375), (30.375, 40)]
    assert kept.seconds(user="alice", place=(NODE, FIRST)) == close(20.25)
    (occupancy,) = kept.occupancies()
    assert occupancy.sums.busy_seconds == close(0.8 * 20.25)
    assert [row.start - NOON for row in kept.series() if row.node_id == NODE] == [0, 10, 20, 30]


def test_nothing_grows_with_time() -> None:
    story = Story(interval_seconds=30.0)

    def size(day: int) -> int:
        for minute in range(24 * 60):
            second = day * 24 * HOUR + minute * MINUTE
            people = (process(minute % 7 + 1, started_at=NOON + second),)
            story.tell(second, gpu(processes=people, busy_percent=95.0))
            if minute % 200 == 0:
                story.silence(second + 10 * MINUTE)
        story.kept.batches.clear()
        (checkpoint,) = story.kept.checkpoints()
        return len(checkpoint.data)

    sizes = [size(day) for day in range(3)]
    assert sizes[2] < 1.2 * sizes[1]


def test_longer_rows_are_the_same_however_often_a_hub_begins_anew() -> None:
    steady, restless = Story(interval_seconds=20.0), Story(interval_seconds=20.0)
    for second in range(-400, 14_400, 20):
        for story in (steady, restless):
            story.tell(second, working(1, busy_percent=second // 20 % 100))
            story.silence(second)
        if second % 220 == 0:
            restless.watched.history.close()
            restless.watched = restless.watched.again()
    for grain in (60, 900, 10800):
        assert restless.kept.series(grain) == steady.kept.series(grain)
    assert [len(steady.kept.series(grain)) for grain in (900, 10800)] == [16, 1]


def test_a_checkpoint_of_before_keeps_who_is_there() -> None:
    story = Story()
    story.go_on(0, 30, working(1))
    story.watched.history.close()
    (checkpoint,) = story.kept.checkpoints()
    page = msgspec.msgpack.decode(checkpoint.data)
    page[0], page[8] = 1, [[FIRST], int(NOON), [], 0, [], 0, None, 0, None, []]
    story.kept.put_checkpoint(Checkpoint(node_id=NODE, data=msgspec.msgpack.encode(page)))
    story.watched = story.watched.again()
    story.go_on(30, 40, working(1))
    story.silence(100)
    (occupancy,) = story.kept.occupancies()
    assert (times([occupancy]), occupancy.sums.gpu_seconds) == ([(0, 40)], close(40.0))


def test_a_checkpoint_that_cannot_be_read_costs_only_what_was_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = Kept()
    kept.put_checkpoint(Checkpoint(node_id=NODE, data=b"not one"))
    watched = Watched(kept, Fleet())
    watched.take(snapshot(gpu()), NOON)
    assert "begins anew" in caplog.text
