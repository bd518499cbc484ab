"""The recorder: periods, occupancies, silence and checkpoints of a reporting node."""

from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import asdict

from fleet_smi.fleet.fleet import FleetState
from fleet_smi.hub.history.recording.rows import Checkpoint
from fleet_smi.hub.history.series.buffer import (
    FIRST_COLUMNS,
    column_positions,
    sample_formats,
)
from fleet_smi.model.history import NO_USER
from fleet_smi.model.people import HIDDEN_USER
from fleet_smi.model.units import GIB
from tests.builders import HOUR, MINUTE, NOON, gpu, instance, process, snapshot
from tests.hub.history.in_memory_history import InMemoryHistory, RecordedFleet, relative_times
from tests.hub.history.reporting_node import FIRST_GPU, NODE_ID, ReportingNode, busy_gpu
from tests.hub.history.scripted_reports import approx_sum


def test_a_process_that_starts_or_exits_begins_a_new_period() -> None:
    story = ReportingNode()
    story.report_every_second(0, 5, gpu())
    story.report_every_second(5, 12, busy_gpu(1))
    story.report_every_second(12, 20, gpu())
    story.tick(100)
    told = [
        (one.state, [holder.user for holder in one.holders])
        for one in story.stored.periods(FIRST_GPU)
    ]
    assert told == [("free", []), ("busy", ["alice"]), ("free", [])]
    assert relative_times(story.stored.periods(FIRST_GPU)) == [(0, 5), (5, 12), (12, 20)]
    (occupancy,) = story.stored.occupancies()
    assert (occupancy.sums.gpu_seconds, occupancy.certain) == (7.0, True)


def test_open_intervals_can_be_queried() -> None:
    story = ReportingNode()
    story.report_every_second(0, 25, busy_gpu(1))
    story.tick(24)
    opened = story.recorded.history.open_batch()
    assert [(place, one.end) for place, one in opened.periods] == [((NODE_ID, FIRST_GPU), None)]
    assert [one.end for one in opened.presence] == [None]
    assert [one.holder.pid for _, one in opened.occupancies] == [1]
    assert [(row.user, row.sums.gpu_seconds) for row in opened.usage] == [("alice", 24.0)]
    assert story.stored.periods(FIRST_GPU) == []


def test_silence_ends_all_intervals_with_uncertain_ends() -> None:
    story = ReportingNode()
    story.report_every_second(0, 5, busy_gpu(1))
    story.tick(60)
    (period,), (occupancy,), (heard,) = (
        story.stored.periods(FIRST_GPU),
        story.stored.occupancies(),
        story.stored.presence(),
    )
    assert not (period.certain or occupancy.certain or heard.certain)
    assert relative_times([period, occupancy, heard]) == [(0, 5)] * 3


def test_a_process_continues_after_a_gap_which_is_not_counted() -> None:
    story = ReportingNode()
    story.report_every_second(0, 5, busy_gpu(1))
    story.tick(60)
    story.report_every_second(100, 110, busy_gpu(1))
    story.report_every_second(110, 112, gpu())
    story.tick(112)
    (occupancy,) = story.stored.occupancies()
    assert relative_times([occupancy]) == [(0, 110)]
    assert occupancy.certain
    assert occupancy.sums.gpu_seconds == approx_sum(15.0)
    assert relative_times(story.stored.periods(FIRST_GPU)) == [(0, 5), (100, 110)]


def test_a_reused_pid_is_another_process() -> None:
    story = ReportingNode()
    story.report_every_second(
        0, 5, gpu(processes=(process(1, started_at=NOON - 100),), busy_percent=95.0)
    )
    again = gpu(processes=(process(1, started_at=NOON + 4.9 + 6),), busy_percent=95.0)
    for minute in range(3):  # nothing else tells them apart: it is seen when rows are made
        story.report_every_second(5 + 60 * minute, 65 + 60 * minute, again)
        story.tick(64 + 60 * minute)
    story.tick(300)
    first, second = story.stored.occupancies()
    assert first.sums.gpu_seconds + second.sums.gpu_seconds == approx_sum(185.0)
    assert second.start <= NOON + 130


def test_two_people_share_a_gpu_in_equal_parts_and_their_processes_share_theirs() -> None:
    story = ReportingNode()
    people = (process(1), process(2), process(3, user="bob"))
    story.report_every_second(0, 12, gpu(processes=people, busy_percent=50.0, power_watts=300.0))
    story.tick(100)
    kept = story.stored
    assert (kept.gpu_seconds(user="alice"), kept.gpu_seconds(user="bob")) == approx_sum((6.0, 6.0))
    assert [one.sums.gpu_seconds for one in kept.occupancies()] == approx_sum([3.0, 3.0, 6.0])
    assert sum(one.sums.energy_joules for one in kept.occupancies()) == approx_sum(3600.0)
    assert sum(one.sums.busy_seconds for one in kept.occupancies()) == approx_sum(6.0)


def test_memory_is_the_mean_over_time_and_the_peak() -> None:
    story = ReportingNode()
    for start, end, gibibytes in ((0, 5, 10), (5, 10, 30), (10, 20, 20)):
        people = (process(1, gpu_memory_bytes=gibibytes * GIB),)
        story.report_every_second(start, end, gpu(processes=people, busy_percent=95.0))
    story.tick(100)
    (occupancy,) = story.stored.occupancies()
    assert occupancy.mean_memory_bytes == 20 * GIB
    assert occupancy.peak_memory_bytes == 30 * GIB
    assert len(story.stored.periods(FIRST_GPU)) == 1


def test_a_busy_gpu_without_visible_processes_is_charged_to_the_hidden_user() -> None:
    story = ReportingNode()
    hidden = gpu(processes=None, busy_percent=99.0, memory_used_bytes=40 * GIB)
    story.report_every_second(0, 10, hidden)
    story.tick(100)
    states = {row.state for row in story.stored.usage()}
    expected = HIDDEN_USER if states & {"busy", "held"} else NO_USER
    assert story.stored.gpu_seconds(user=expected) == approx_sum(10.0)


def test_instances_count_as_fractions_that_add_up_to_their_gpu() -> None:
    story = ReportingNode()
    big = instance(1, profile="4g.40gb", processes=(process(1),))
    small = instance(2, profile="1g.10gb", processes=(process(2, user="bob"),))
    everybody = (process(1), process(2, user="bob"))
    card = gpu(mig_mode=True, instances=(big, small), processes=everybody, busy_percent=None)
    story.report_every_second(0, 14, card)
    story.tick(100)
    kept = story.stored
    assert kept.gpu_seconds(user="alice") == approx_sum(14 * 4 / 7)
    assert kept.gpu_seconds(user="bob") == approx_sum(14 * 1 / 7)
    assert kept.gpu_seconds() == approx_sum(14.0)
    assert kept.gpus[NODE_ID, small.uuid].parent == FIRST_GPU
    assert {row.uuids for row in kept.series()} == {(FIRST_GPU, big.uuid, small.uuid)}


def test_a_missing_gpu_is_broken_and_the_others_continue() -> None:
    story = ReportingNode()
    story.report_every_second(0, 15, busy_gpu(1), gpu(1))
    story.report_every_second(15, 30, busy_gpu(1))
    story.tick(100)
    assert relative_times(story.stored.periods(FIRST_GPU)) == [(0, 30)]
    states = [one.state for one in story.stored.periods("GPU-00000001")]
    assert states == ["free", "broken"]


def test_a_gpu_that_moved_to_another_node_has_ended_here() -> None:
    story = ReportingNode()
    story.report_every_second(0, 15, busy_gpu(1), gpu(1))
    story.report_every_second(15, 20, busy_gpu(1))
    there = ReportingNode(node_id="id-of-gpu02", node="gpu02")
    there.recorded = story.recorded
    for second in range(20, 30):
        there.report(second, gpu(1))
        story.report(second, busy_gpu(1))
    story.tick(100)
    assert relative_times(story.stored.periods("GPU-00000001")) == [(0, 15), (15, 20)]
    assert relative_times(story.stored.periods("GPU-00000001", "id-of-gpu02")) == [(20, 30)]


def test_a_clock_that_is_set_back_counts_no_second_twice() -> None:
    story = ReportingNode()
    story.report_every_second(0, 100, busy_gpu(1))
    for offset in range(80):  # by a minute
        story.recorded.take(
            snapshot(busy_gpu(1), sequence=200 + offset, run_id="run", taken_at=NOON + offset),
            NOON + 40 + offset,
        )
    story.tick(200)
    assert story.stored.gpu_seconds(user="alice") == approx_sum(120.0)
    assert relative_times(story.stored.periods(FIRST_GPU)) == [(0, 120)]


def test_a_clock_that_was_years_ahead_does_not_stop_history() -> None:
    story = ReportingNode()
    story.report_every_second(1e8, 1e8 + 10, busy_gpu(1))
    story.report_every_second(0, 30, busy_gpu(1))
    story.tick(100)
    assert relative_times(story.stored.periods(FIRST_GPU)) == [(0, 30), (1e8, 1e8 + 10)]


def test_a_removed_node_is_ended_and_its_checkpoint_deleted() -> None:
    story = ReportingNode()
    story.report_every_second(0, 15, busy_gpu(1))
    story.recorded.history.remove_node(NODE_ID, NOON + 14.5)
    story.tick(15)
    assert relative_times(story.stored.periods(FIRST_GPU)) == [(0, 14.5)]
    assert relative_times(story.stored.presence()) == [(0, 14.5)]
    assert story.stored.checkpoints() == []
    assert story.recorded.history.open_batch().periods == []
    assert list(story.stored.moments.values())[-1].nodes == 0


def test_a_ribbon_point_is_recorded_every_minute() -> None:
    story = ReportingNode()
    other = ReportingNode(node_id="id-of-gpu02", node="gpu02")
    other.recorded = story.recorded
    for second in range(180):
        story.report(second, busy_gpu(1), gpu(1))
        if second < 90:
            other.report(second, gpu(2))
        story.tick(second)
    counted = [
        (one.nodes, one.nodes_reporting, one.gpus["free"], one.gpus["busy"])
        for one in story.stored.moments.values()
    ]
    first = NOON // MINUTE * MINUTE
    assert (
        list(story.stored.moments) == [first, first + 60, first + 120, first + 180][: len(counted)]
    )
    assert counted[1] == (2, 2, 2.0, 1.0)
    assert counted[-1] == (2, 1, 1.0, 1.0)


def test_names_labels_and_gpus_are_written_when_they_change() -> None:
    story = ReportingNode(labels={"room": "a"})
    story.report_every_second(0, 30, gpu(), gpu(1))
    story.tick(29)
    assert sum(len(batch.gpus) for batch in story.stored.batches) == 2
    story.recorded.fleet.label(NODE_ID, "renamed", {"group": "vision"})
    story.recorded.history.mark_renamed(NODE_ID)
    story.report_every_second(30, 50, gpu(), gpu(1))
    story.tick(60)
    assert story.stored.nodes[NODE_ID].name == "renamed"
    assert story.stored.nodes[NODE_ID].labels == {"room": "a", "group": "vision"}


def test_at_a_high_report_rate_samples_are_thinned_and_all_time_is_counted() -> None:
    story = ReportingNode(interval_seconds=0.125)
    watched = story.recorded
    for eighth in range(8 * 40):
        at = NOON + eighth / 8
        card = busy_gpu(1, busy_percent=80.0) if 81 <= eighth < 243 else gpu(busy_percent=0.0)
        story.report(eighth / 8, card)
        for other in range(1, 50):
            told = snapshot(gpu(other), node_id=f"id-{other}", sequence=eighth + 1, run_id="run")
            watched.take(told, at)
        watched.history.tick(at)
    assert watched.history.counts()["history_spacing_seconds"] == 2.0
    story.tick(50)
    kept = story.stored
    assert relative_times(kept.periods(FIRST_GPU)) == [(0, 10.125), (10.125, 30.375), (30.375, 40)]
    assert kept.gpu_seconds(user="alice", gpu_key=(NODE_ID, FIRST_GPU)) == approx_sum(20.25)
    (occupancy,) = kept.occupancies()
    assert occupancy.sums.busy_seconds == approx_sum(0.8 * 20.25)
    assert [row.start - NOON for row in kept.series() if row.node_id == NODE_ID] == [0, 10, 20, 30]


def test_memory_does_not_grow_with_time() -> None:
    story = ReportingNode(interval_seconds=30.0)

    def size(day: int) -> int:
        for minute in range(24 * 60):
            second = day * 24 * HOUR + minute * MINUTE
            people = (process(minute % 7 + 1, started_at=NOON + second),)
            story.report(second, gpu(processes=people, busy_percent=95.0))
            if minute % 200 == 0:
                story.tick(second + 10 * MINUTE)
        story.stored.batches.clear()
        (checkpoint,) = story.stored.checkpoints()
        return len(checkpoint.data)

    sizes = [size(day) for day in range(3)]
    assert sizes[2] < 1.2 * sizes[1]


def test_coarse_rows_do_not_depend_on_restarts() -> None:
    steady, restless = ReportingNode(interval_seconds=20.0), ReportingNode(interval_seconds=20.0)
    for second in range(-400, 14_400, 20):
        for story in (steady, restless):
            story.report(second, busy_gpu(1, busy_percent=second // 20 % 100))
            story.tick(second)
        if second % 220 == 0:
            restless.recorded.history.close()
            restless.recorded = restless.recorded.restart()
    for grain in (60, 900, 10800):
        assert restless.stored.series(grain) == steady.stored.series(grain)
    assert [len(steady.stored.series(grain)) for grain in (900, 10800)] == [16, 1]


def to_first_columns(state: list[Any]) -> None:
    """Change a decoded checkpoint to one from before samples named their columns."""
    positions = column_positions(FIRST_COLUMNS, 1)
    former = {new: old for old, new in positions.items()}
    samples = np.frombuffer(state[6], sample_formats(1)[1])
    old = np.empty(len(samples), np.dtype([("at", "f8"), ("figures", "f4", (len(positions),))]))
    old["at"] = samples["at"]
    old["figures"] = samples["figures"][:, [positions[column] for column in sorted(positions)]]
    state[6] = old.tobytes()
    for use, *_ in state[7][2].values():
        use[4], use[5] = former[use[4]], former[use[5]]
    del state[10:]


@pytest.mark.parametrize("version", [1, 3])
def test_a_checkpoint_of_an_older_version_is_resumed(version: int) -> None:
    story, undisturbed = ReportingNode(), ReportingNode()
    story.report_every_second(0, 30, busy_gpu(1))
    story.recorded.history.close()
    (checkpoint,) = story.stored.checkpoints()
    state = msgspec.msgpack.decode(checkpoint.data)
    to_first_columns(state)
    state[0] = version
    if version == 1:
        state[8] = [[FIRST_GPU], int(NOON), [], 0, [], 0, None, 0, None, []]
    story.stored.put_checkpoint(Checkpoint(node_id=NODE_ID, data=msgspec.msgpack.encode(state)))
    story.recorded = story.recorded.restart()
    story.report_every_second(30, 40, busy_gpu(1))
    story.tick(100)
    undisturbed.report_every_second(0, 40, busy_gpu(1))
    undisturbed.tick(100)
    (occupancy,), (expected,) = story.stored.occupancies(), undisturbed.stored.occupancies()
    assert relative_times([occupancy]) == [(0, 40)]
    assert asdict(occupancy.sums) == approx_sum(asdict(expected.sums))
    assert expected.sums.busy_seconds > 0
    assert expected.sums.energy_joules > 0


def test_an_unreadable_checkpoint_loses_only_open_intervals(
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = InMemoryHistory()
    kept.put_checkpoint(Checkpoint(node_id=NODE_ID, data=b"not one"))
    watched = RecordedFleet(kept, FleetState())
    watched.take(snapshot(gpu()), NOON)
    assert "is unreadable" in caplog.text
