"""Sample spacing: at a high report rate samples are thinned."""

import pytest

from fleet_smi.hub.history.recording.sample_spacing import SampleSpacing
from tests.builders import NOON, gpu, snapshot
from tests.hub.history.in_memory_history import relative_times
from tests.hub.history.reporting_node import FIRST_GPU, NODE_ID, ReportingNode, busy_gpu
from tests.hub.history.scripted_reports import approx_sum


@pytest.mark.parametrize(
    ("reports_per_second", "seconds"), [(0, 0.0), (200, 0.0), (400, 2.0), (100_000, 10.0)]
)
def test_the_spacing_follows_the_report_rate(reports_per_second: int, seconds: float) -> None:
    spacing = SampleSpacing()
    spacing.update(NOON)
    spacing.reports = 2 * reports_per_second
    spacing.update(NOON + 2.0)
    assert (spacing.seconds, spacing.reports) == (seconds, 0)


def test_at_a_high_report_rate_samples_are_thinned_and_all_time_is_counted() -> None:
    story = ReportingNode(interval_seconds=0.125)
    watched = story.recorded
    for eighth in range(8 * 40):
        at = NOON + eighth / 8
        card = busy_gpu(1, busy_percent=80.0) if 81 <= eighth < 243 else gpu(busy_percent=0.0)
        story.report(eighth / 8, card)
        for other in range(1, 50):
            report = snapshot(gpu(other), node_id=f"id-{other}", sequence=eighth + 1, run_id="run")
            watched.take(report, at)
        watched.history.tick(at)
    assert watched.history.counts()["history_spacing_seconds"] == 2.0
    story.tick(50)
    kept = story.stored
    assert relative_times(kept.periods(FIRST_GPU)) == [(0, 10.125), (10.125, 30.375), (30.375, 40)]
    assert kept.gpu_seconds(user="alice", gpu_key=(NODE_ID, FIRST_GPU)) == approx_sum(20.25)
    (occupancy,) = kept.occupancies()
    assert occupancy.sums.busy_seconds == approx_sum(0.8 * 20.25)
    assert [row.start - NOON for row in kept.series() if row.node_id == NODE_ID] == [0, 10, 20, 30]
