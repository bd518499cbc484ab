"""Series of a node: rollups, staggered across nodes and independent of restarts."""

from math import nan

import pytest

from fleet_smi.hub.history.recording.node_series import NodeSeries
from tests.builders import MINUTE, NOON
from tests.hub.history.reporting_node import ReportingNode, busy_gpu


@pytest.mark.parametrize(
    ("interval_seconds", "minutes"), [(1.0, 1), (3.0, 3), (60.0, 5), (None, 5), (nan, 5)]
)
def test_a_rollup_is_due_within_a_few_minutes_by_the_interval(
    interval_seconds: float | None, minutes: int
) -> None:
    due = []
    for number in range(50):
        series = NodeSeries(f"id-{number}")
        series.set_interval(interval_seconds)
        series.schedule_rollup(NOON, 0.0)
        due.append(series.rollup_due - NOON)
    assert 0 < min(due) < max(due) <= minutes * MINUTE
    assert len(set(due)) == len(due)  # staggered across nodes


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
