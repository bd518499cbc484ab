"""Node recorder: periods, occupancies, silence and clock steps of a reporting node."""

from fleet_smi.model.units import GIB
from tests.builders import HOUR, MINUTE, NOON, gpu, process, snapshot
from tests.hub.history.in_memory_history import relative_times
from tests.hub.history.reporting_node import FIRST_GPU, ReportingNode, busy_gpu
from tests.hub.history.scripted_reports import approx_sum


def test_a_process_that_starts_or_exits_begins_a_new_period() -> None:
    story = ReportingNode()
    story.report_every_second(0, 5, gpu())
    story.report_every_second(5, 12, busy_gpu(1))
    story.report_every_second(12, 20, gpu())
    story.tick(100)
    states_and_users = [
        (one.state, [holder.user for holder in one.holders])
        for one in story.stored.periods(FIRST_GPU)
    ]
    assert states_and_users == [("free", []), ("busy", ["alice"]), ("free", [])]
    assert relative_times(story.stored.periods(FIRST_GPU)) == [(0, 5), (5, 12), (12, 20)]
    (occupancy,) = story.stored.occupancies()
    assert (occupancy.sums.gpu_seconds, occupancy.certain) == (7.0, True)


def test_silence_ends_all_intervals_with_uncertain_ends() -> None:
    story = ReportingNode()
    story.report_every_second(0, 5, busy_gpu(1))
    story.tick(60)
    (period,), (occupancy,), (presence,) = (
        story.stored.periods(FIRST_GPU),
        story.stored.occupancies(),
        story.stored.presence(),
    )
    assert not (period.certain or occupancy.certain or presence.certain)
    assert relative_times([period, occupancy, presence]) == [(0, 5)] * 3


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


def test_a_missing_gpu_is_broken_and_the_others_continue() -> None:
    story = ReportingNode()
    story.report_every_second(0, 15, busy_gpu(1), gpu(1))
    story.report_every_second(15, 30, busy_gpu(1))
    story.tick(100)
    assert relative_times(story.stored.periods(FIRST_GPU)) == [(0, 30)]
    states = [one.state for one in story.stored.periods("GPU-00000001")]
    assert states == ["free", "broken"]


def test_a_missing_gpu_that_another_node_reports_stays_broken_here() -> None:
    story = ReportingNode()
    story.report_every_second(0, 15, busy_gpu(1), gpu(1))
    story.report_every_second(15, 20, busy_gpu(1))
    there = ReportingNode(node_id="id-of-gpu02", node="gpu02")
    there.recorded = story.recorded
    for second in range(20, 30):
        there.report(second, gpu(1))
        story.report(second, busy_gpu(1))
    story.tick(100)
    assert relative_times(story.stored.periods("GPU-00000001")) == [(0, 15), (15, 30)]
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
