"""Late reports fill the gap that they belong to and change nothing else."""

from itertools import pairwise
from typing import cast

from fleet_smi.model.history import Occupancy
from tests.builders import HOUR, NOON, gpu, process
from tests.hub.history.in_memory_history import relative_times
from tests.hub.history.reporting_node import FIRST_GPU, NODE_ID, ReportingNode, busy_gpu
from tests.hub.history.scripted_reports import approx_sum


def test_reports_delayed_by_an_hour_fill_their_gap() -> None:
    story = ReportingNode()
    story.report_every_second(0, 5, busy_gpu(1))
    story.tick(HOUR)
    story.report_every_second(5, 60, busy_gpu(1))  # in order, as an agent sends what it kept
    story.report_every_second(60, 70, gpu())
    story.tick(2 * HOUR)
    (occupancy,) = story.stored.occupancies()
    assert (relative_times([occupancy]), occupancy.sums.gpu_seconds) == (
        [(0, 60)],
        approx_sum(60.0),
    )
    assert relative_times(story.stored.presence()) == [(0, 70)]
    assert len(story.stored.series()) == 7


def test_late_reports_fill_a_gap_and_change_nothing_else() -> None:
    story = ReportingNode()
    story.report_every_second(0, 20, busy_gpu(1))
    story.sequence += 1000
    story.report_every_second(1000, 1020, busy_gpu(1))
    before = {row.start: row for row in story.stored.series()}
    for offset in range(500):
        story.report(100 + offset, busy_gpu(2, user="bob"), number=21 + offset)
    story.tick(1019)
    story.tick(1021.5)
    story.report_every_second(1022, 1025, gpu())
    story.tick(1100)
    kept = story.stored
    assert relative_times(kept.periods(FIRST_GPU))[:3] == [(0, 20), (100, 600), (1000, 1022)]
    assert kept.gpu_seconds(user="bob") == approx_sum(500.0)
    assert kept.gpu_seconds(user="alice") == approx_sum(42.0)
    assert all(row in kept.series() for row in before.values())
    assert {row.start - NOON for row in kept.series()} >= set(range(100, 600, 10))
    assert relative_times(kept.presence()) == [(0, 20), (100, 600), (1000, 1025)]


def test_a_long_gap_is_filled_without_a_seam() -> None:
    story = ReportingNode()
    story.report_every_second(0, 5, busy_gpu(1))
    story.sequence += 20_000
    story.report_every_second(12_000, 12_005, busy_gpu(1))
    for second in range(10, 11_500):
        story.report(second, busy_gpu(1, busy_percent=0.0), number=second)
    story.tick(12_005)
    story.tick(12_008)
    held = [one for one in story.stored.periods(FIRST_GPU) if one.state == "held"]
    assert (relative_times(held)[0][0], relative_times(held)[-1][1]) == (612, 11_500)
    assert all(one.end == after.start for one, after in pairwise(held))
    assert story.recorded.history.counts()["history_reports_too_late_total"] == 0


def test_late_reports_of_a_running_process_extend_its_occupancy() -> None:
    story = ReportingNode()
    story.report_every_second(0, 20, busy_gpu(1))
    story.sequence += 1000
    story.report_every_second(200, 220, busy_gpu(1))
    for offset in range(100):
        story.report(50 + offset, busy_gpu(1), number=21 + offset)
    story.tick(219)
    story.tick(222)
    story.tick(300)
    (occupancy,) = story.stored.occupancies()
    assert occupancy.sums.gpu_seconds == approx_sum(20.0 + 100.0 + 20.0)


def test_late_sums_are_added_to_the_hours_around_the_gap() -> None:
    noon = NOON // HOUR * HOUR + HOUR - 30 - NOON
    story = ReportingNode()
    story.report_every_second(noon, noon + 10, busy_gpu(1))
    story.sequence += 1000
    story.report_every_second(noon + 60, noon + 80, busy_gpu(1))
    for offset in range(40):
        story.report(noon + 12 + offset, busy_gpu(1), number=11 + offset)
    story.tick(noon + 79)
    story.tick(noon + 81)
    story.tick(noon + 200)
    by_hour = sorted((row.hour, row.sums.gpu_seconds) for row in story.stored.usage())
    assert [seconds for _, seconds in by_hour] == approx_sum([10.0 + 18.0, 22.0 + 20.0])


def test_reports_too_late_for_any_gap_are_only_counted() -> None:
    story = ReportingNode()
    story.report_every_second(10, 20, busy_gpu(1))
    story.report(15.5, busy_gpu(2), number=0, run_id="another")
    assert story.recorded.history.counts()["history_reports_too_late_total"] == 1


def test_reports_from_before_the_first_one_of_a_node_are_recorded() -> None:
    story = ReportingNode()
    story.report_every_second(1000, 1010, busy_gpu(1))
    for second in range(1000):
        story.report(second, busy_gpu(2, user="bob"), number=second + 1, run_id="before")
    story.tick(1009)
    story.tick(1011.5)
    story.report(1012, gpu())
    story.tick(1100)
    assert relative_times(story.stored.periods(FIRST_GPU))[:2] == [(0, 1000), (1000, 1012)]
    assert story.stored.gpu_seconds(user="bob") == approx_sum(1000.0)
    assert story.stored.gpu_seconds(user="alice") == approx_sum(12.0)
    assert story.recorded.history.counts()["history_reports_too_late_total"] == 0


def test_a_node_that_lost_its_record_does_not_record_its_past_again() -> None:
    story = ReportingNode()
    story.report_every_second(0, 10, busy_gpu(1))
    story.recorded.history._set_aside(NODE_ID, ValueError("a bug"))
    story.report_every_second(10, 20, busy_gpu(1))
    story.report(5, busy_gpu(2), number=0, run_id="another")
    assert story.recorded.history.counts()["history_reports_too_late_total"] == 1


def test_a_past_that_has_not_been_reported_within_days_is_final() -> None:
    story = ReportingNode(interval_seconds=HOUR)
    for hour in range(60):
        story.report(hour * HOUR, busy_gpu(1))
    story.tick(60 * HOUR)
    story.report(-HOUR, busy_gpu(2), number=0, run_id="before")
    assert story.recorded.history.counts()["history_reports_too_late_total"] == 1


class WaitingRow:
    """An occupancy in the batch that counts how often it is looked at."""

    def __init__(self) -> None:
        self.reads = 0
        self.holder = process(1)

    @property
    def start(self) -> float:
        self.reads += 1
        return 0.0


def test_late_reports_of_many_nodes_that_end_together_read_the_waiting_rows_once() -> None:
    """After an outage all nodes resend at the same time: this runs on the event loop."""
    story = ReportingNode()
    names = [f"gpu{number:02}" for number in range(20)]
    for name in names:
        busy = busy_gpu(1, uuid=f"GPU-of-{name}")
        for second in (0, 1, 2, 300, 301, 302, 100, 101, 102):
            story.report(second, busy, node=name, number=1 + second)
    history, row = story.recorded.history, WaitingRow()
    history._batch.occupancies.append((("id-of-another", FIRST_GPU), cast(Occupancy, row)))
    ids = [f"id-of-{name}" for name in names]
    assert all(map(history.has_late_reports, ids))
    history.schedule_save(ids)
    assert not any(map(history.has_late_reports, ids))
    assert row.reads <= 1


def test_late_reports_of_many_nodes_that_end_together_are_finished_a_few_at_a_time() -> None:
    """Each takes milliseconds of the event loop: all at once would delay every report."""
    story = ReportingNode()
    names = [f"gpu{number:02}" for number in range(20)]
    for name in names:
        busy = busy_gpu(1, uuid=f"GPU-of-{name}")
        for second in (0, 1, 2, 300, 301, 302, 100, 101, 102):
            story.report(second, busy, node=name, number=1 + second)
    history, left = story.recorded.history, [20]
    for tick in range(100):
        story.tick(302 + tick / 10)
        left.append(sum(history.has_late_reports(f"id-of-{name}") for name in names))
    assert left[-1] == 0
    assert max(before - after for before, after in pairwise(left)) <= 5
