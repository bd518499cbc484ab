"""Recorder of a fleet: open intervals, removed nodes and ribbon points."""

from tests.builders import HOUR, MINUTE, NOON, gpu
from tests.hub.history.in_memory_history import relative_times
from tests.hub.history.reporting_node import FIRST_GPU, NODE_ID, ReportingNode, busy_gpu
from tests.hub.history.scripted_reports import approx_sum


def test_open_intervals_can_be_queried() -> None:
    story = ReportingNode()
    story.report_every_second(0, 25, busy_gpu(1))
    story.tick(24)
    opened = story.recorded.history.open_batch()
    assert [(place, one.end) for place, one in opened.periods] == [((NODE_ID, FIRST_GPU), None)]
    assert [one.end for one in opened.presence] == [None]
    assert [one.holder.pid for _, one in opened.occupancies] == [1]
    assert story.stored.periods(FIRST_GPU) == []


def test_the_sums_of_the_current_hour_can_be_written_early_and_never_replace_later_ones() -> None:
    story = ReportingNode()
    history, seconds_left = story.recorded.history, 3600 - NOON % 3600
    story.report_every_second(seconds_left - 25, seconds_left - 1, busy_gpu(1))
    history.add_current_usage([NODE_ID, "unknown"])
    story.report_every_second(seconds_left - 1, seconds_left + 5, busy_gpu(1))
    history.add_current_usage([NODE_ID])
    history.flush()
    assert [round(row.sums.gpu_seconds) for row in story.stored.usage()] == [25, 4]


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


def test_a_node_that_is_removed_and_joins_again_keeps_the_usage_of_that_hour() -> None:
    story = ReportingNode()
    for start in (0, 100):
        story.report_every_second(start, start + 50, busy_gpu(1))
        story.recorded.history.remove_node(NODE_ID, NOON + start + 50)
        story.recorded.fleet.remove(NODE_ID)
        story.tick(start + 50)
    assert story.stored.gpu_seconds(user="alice") == approx_sum(100.0)


def test_a_node_that_is_set_aside_keeps_the_usage_of_that_hour() -> None:
    story = ReportingNode()
    story.report_every_second(0, 50, busy_gpu(1))
    story.tick(49)
    story.recorded.history._set_aside(NODE_ID, ValueError("a bug"))
    story.report_every_second(50, 100, busy_gpu(1))
    story.recorded.history.remove_node(NODE_ID, NOON + 100)
    story.tick(100)
    assert story.stored.gpu_seconds(user="alice") == approx_sum(99.0)


def test_the_hours_of_removed_nodes_are_forgotten_when_they_are_over() -> None:
    story = ReportingNode()
    history, fleet = story.recorded.history, story.recorded.fleet
    for hour, name in enumerate(("one", "two")):
        second = hour * HOUR
        story.tick(second)
        story.report_every_second(second, second + 10, busy_gpu(1), node=name)
        history.remove_node(f"id-of-{name}", NOON + second + 10)
        fleet.remove(f"id-of-{name}")
    assert len(history._ended_hours) == 1


def test_reports_that_a_busy_hub_handles_late_are_no_silence() -> None:
    story = ReportingNode()
    story.report_every_second(0, 10, busy_gpu(1))
    story.recorded.fleet.delay_seconds = 20.0
    story.tick(20)
    story.report(25, busy_gpu(1))
    story.report(45, busy_gpu(1, 2))  # with a change
    story.recorded.fleet.delay_seconds = 0.0
    story.report_every_second(46, 60, busy_gpu(1, 2))
    story.tick(59)
    history = story.recorded.history
    assert [interval.start - NOON for interval in history.open_batch().presence] == [0]
    assert story.stored.presence() == []
    story.tick(70)
    assert relative_times(story.stored.presence()) == [(0, 60)]


def test_a_node_is_charged_for_the_usage_that_each_of_its_checkpoints_has() -> None:
    def rows_of_the_last_report(users: int) -> int:
        story = ReportingNode()
        history = story.recorded.history
        for second in range(users):
            story.report(second, busy_gpu(second, user=f"user{second}"))
        before = history.recorded_rows
        story.report(users, busy_gpu(users, user="another"))
        return history.recorded_rows - before

    # A period and a process that have ended; with many users, the sums of all of them as well.
    assert rows_of_the_last_report(3) == 2
    assert rows_of_the_last_report(205) in range(11, 14)
