"""The hub's clock is set: the fleet stays live, and the history goes on and says so."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.fleet import NodeCheckpoint
from fleet_smi.hub.history.series.codec import GRAINS, decode_rows
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.model.fleet import Verdict
from tests.builders import HOUR, NOON, snapshot
from tests.hub.clocked_hub import ClockedHub
from tests.hub.history.in_memory_history import InMemoryHistory, relative_times
from tests.hub.history.reporting_node import FIRST_GPU, NODE_ID, busy_gpu

HALF = HOUR / 2
START = NOON // HOUR * HOUR + HALF
"""Half past a full hour."""
INTERVAL = 10


class ReportingHub(ClockedHub):
    """A hub with a clock that tests set, and a node that reports to it."""

    _sequence = 0

    def verdict(self) -> Verdict:
        """The current verdict on the only GPU."""
        shown = self.fleet.node(NODE_ID, self.now)
        assert shown is not None
        return shown.gpus[0].verdict

    def close(self) -> None:
        """End the history of the node."""
        self.history.remove_node(NODE_ID, self.now)
        self.history.flush()

    def report_for(
        self, seconds: float, *pids: int, run_id: str = "run", busy_percent: float = 50.0
    ) -> None:
        """Report at every interval; the clock goes on."""
        end = self.now + seconds
        while self.now < end:
            self.pass_time(INTERVAL)
            self._sequence += 1
            sent = snapshot(
                replace(busy_gpu(*pids), busy_percent=busy_percent if pids else 0.0),
                taken_at=self.now,
                sequence=self._sequence,
                run_id=run_id,
                interval_seconds=float(INTERVAL),
            )
            self.hub.deliver(Delivery(source="push", target=sent.node_id, result=sent))
            self.hub.publish()


@pytest.fixture
def stored() -> InMemoryHistory:
    return InMemoryHistory()


@pytest.mark.parametrize("back", [HALF / 3, HOUR, 3 * HOUR])
def test_the_history_goes_on_when_the_clock_is_set_back(
    memory: NodeStore[NodeCheckpoint],
    stored: InMemoryHistory,
    caplog: pytest.LogCaptureFixture,
    back: float,
) -> None:
    hub = ReportingHub(memory, stored, START - 4 * HOUR)
    hub.report_for(4 * HOUR, 1)
    hub.report_for(HALF / 2, 1, 2)
    hub.now -= back
    at = hub.now
    hub.report_for(2 * HOUR, 1, 2)
    shown = hub.fleet.node(NODE_ID, hub.now)
    assert shown is not None
    assert not shown.silent
    # An agent that is restarted now is not late.
    hub.report_for(HALF, 1, run_id="next run")
    hub.history.remove_node(NODE_ID, hub.now)
    hub.history.flush()
    said = [one.getMessage() for one in caplog.records if "clock" in one.getMessage()]
    assert len(said) == 1
    (gap,) = stored.gaps
    assert gap.start == gap.end
    assert abs(gap.start - at) <= INTERVAL
    assert "clock was set back" in gap.why
    (first,) = [one for one in stored.occupancies() if one.holder.pid == 1]
    assert relative_times([first])[0][1] == hub.now - NOON  # one process, to the end
    periods = stored.periods(FIRST_GPU)
    assert hub.now in [one.end for one in periods]
    # Nothing is counted twice, and every hour is whole, but for the first and the last.
    by_hour: dict[int, float] = {}
    for row in stored.usage():
        by_hour[row.hour] = by_hour.get(row.hour, 0.0) + row.sums.gpu_seconds
    whole = sorted(by_hour)[1:-1]
    if back <= HOUR:
        assert {round(by_hour[hour]) for hour in whole} == {3600}
    assert all(seconds <= 3600.1 for seconds in by_hour.values())


def test_a_clock_that_was_set_back_while_no_hub_was_running_is_noticed(
    memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory, caplog: pytest.LogCaptureFixture
) -> None:
    before = ReportingHub(memory, stored, START)
    before.report_for(HALF, 1)
    before.history.close()
    after = ReportingHub(memory, stored, START - HOUR)
    after._sequence = before._sequence
    after.report_for(HALF, 1)
    after.history.remove_node(NODE_ID, after.now)
    after.history.flush()
    assert "set back by 1 h 29 min" in caplog.text
    found = [one for one in stored.periods(FIRST_GPU) if one.start < START]
    assert sum((one.end or 0.0) - one.start for one in found) == pytest.approx(HALF, abs=30)


def test_a_small_correction_of_the_clock_is_waited_out(
    memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory, caplog: pytest.LogCaptureFixture
) -> None:
    hub = ReportingHub(memory, stored, START)
    hub.report_for(HALF, 1)
    hub.now -= 15.0
    hub.report_for(HALF, 1)
    hub.history.remove_node(NODE_ID, hub.now)
    hub.history.flush()
    assert "clock" not in caplog.text
    assert relative_times(stored.periods(FIRST_GPU)) == [(START + INTERVAL - NOON, hub.now - NOON)]


def sums_by_hour(stored: InMemoryHistory) -> dict[int, float]:
    by_hour: dict[int, float] = {}
    for row in stored.usage():
        by_hour[row.hour] = by_hour.get(row.hour, 0.0) + row.sums.gpu_seconds
    return by_hour


def assert_no_overlap(stored: InMemoryHistory) -> None:
    spans = [(one.start, one.end) for one in stored.periods(FIRST_GPU)]
    reported = [(one.start, one.end) for one in stored.presence()]
    for (_, end), (start, _) in (*pairwise(spans), *pairwise(reported)):
        assert end is not None
        assert end <= start
    assert all(seconds <= 3600.1 for seconds in sums_by_hour(stored).values())


@pytest.mark.parametrize("step", [-3 * HOUR, -20.0, 100.0, 40 * 24 * HOUR])
def test_a_gpu_is_held_since_as_long_as_before_when_the_clock_is_set(
    memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory, step: float
) -> None:
    hub = ReportingHub(memory, stored, START)
    hub.report_for(240.0, 1)
    hub.set_clock(step)
    hub.report_for(60.0, 1)
    verdict = hub.verdict()
    assert verdict.state == "busy"
    assert hub.now - verdict.since == pytest.approx(290.0, abs=INTERVAL)
    hub.report_for(120.0, 1, busy_percent=0.0)
    hub.set_clock(step)
    hub.report_for(580.0, 1, busy_percent=0.0)
    verdict = hub.verdict()
    assert verdict.state == "held"
    assert verdict.idle_seconds == pytest.approx(690.0, abs=INTERVAL)
    assert verdict.since <= hub.now


def test_a_silent_node_stays_silent_when_the_clock_is_set(
    memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory
) -> None:
    hub = ReportingHub(memory, stored, START)
    hub.report_for(60.0, 1)
    hub.pass_time(300.0)
    hub.set_clock(-HOUR)
    hub.hub.publish()
    shown = hub.fleet.node(NODE_ID, hub.now)
    assert shown is not None
    assert shown.silent
    assert shown.age_seconds == pytest.approx(300.0, abs=INTERVAL)
    assert shown.gpus[0].verdict.since <= hub.now


def test_the_first_hour_is_recorded_when_the_clock_is_set_back_to_before_the_first_report(
    memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory
) -> None:
    hub = ReportingHub(memory, stored, START)
    hub.report_for(600.0, 1)
    hub.set_clock(-2 * HOUR)
    hub.report_for(HOUR, 1)
    hub.close()
    assert_no_overlap(stored)
    counted = sum(seconds for hour, seconds in sums_by_hour(stored).items() if hour < START - HALF)
    assert counted == pytest.approx(HOUR, abs=2 * INTERVAL)
    (job,) = stored.occupancies()
    assert job.end == hub.now
    assert job.end - job.start == pytest.approx(HOUR + 600.0, abs=2 * INTERVAL)
    assert job.sums.gpu_seconds <= job.end - job.start


@pytest.mark.parametrize("back", [40.0, HALF, 3 * HOUR])
def test_what_is_recorded_again_replaces_what_was_recorded(
    memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory, back: float
) -> None:
    hub = ReportingHub(memory, stored, START - 4 * HOUR)
    for turn in range(24):  # periods and jobs of ten minutes, all of them written
        hub.report_for(600.0, *([turn] if turn % 2 else []))
    hub.set_clock(-back)
    at = hub.now
    hub.report_for(back + HOUR, 100)
    hub.close()
    assert_no_overlap(stored)
    for job in stored.occupancies():
        assert job.end is not None
        assert job.end <= at + INTERVAL or job.holder.pid == 100
        assert job.sums.gpu_seconds <= job.end - job.start + 0.1


def test_a_clock_that_was_wrong_for_a_while_costs_no_more_than_that_while(
    memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory
) -> None:
    hub = ReportingHub(memory, stored, START)
    for turn in range(30):
        hub.report_for(600.0, *([turn] if turn % 2 else []))
    hub.set_clock(-4 * HOUR)
    wrong_from = hub.now
    hub.report_for(600.0, 100)
    hub.set_clock(4 * HOUR)
    hub.report_for(600.0, 101)
    hub.close()
    assert_no_overlap(stored)
    pids = {one.holder.pid for one in stored.occupancies()}
    assert {one for one in range(30) if one % 2} - pids <= {5, 7}
    assert {100, 101} <= pids
    spans = [(one.start, one.end) for one in stored.periods(FIRST_GPU)]
    lost = [span for span in spans if span[1] and span[0] < wrong_from + 600.0 < span[1] - 30.0]
    assert lost == []


@pytest.mark.parametrize("step", [45.0, HOUR, 40 * 24 * HOUR])
def test_time_that_the_clock_skipped_is_nobodys_use(
    memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory, step: float
) -> None:
    hub = ReportingHub(memory, stored, START)
    hub.report_for(1200.0, 1)
    hub.set_clock(step)
    hub.report_for(1200.0, 1)
    hub.close()
    assert_no_overlap(stored)
    assert sum(sums_by_hour(stored).values()) == pytest.approx(2400.0, abs=3 * INTERVAL)
    (job,) = stored.occupancies()
    assert job.end is not None
    assert job.end - job.start == pytest.approx(2400.0, abs=3 * INTERVAL)
    (gap,) = stored.gaps
    assert "set forward" in gap.why


def test_time_of_a_suspended_machine_has_passed(
    memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory, caplog: pytest.LogCaptureFixture
) -> None:
    hub = ReportingHub(memory, stored, START)
    hub.report_for(600.0, 1)
    hub.pass_time(8 * HOUR)
    hub.report_for(600.0, 1)
    assert "clock" not in caplog.text
    assert hub.now - hub.verdict().since == pytest.approx(8 * HOUR + 1200.0, abs=2 * INTERVAL)


def test_a_hub_that_is_restarted_goes_on_replacing_what_was_recorded(
    memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory
) -> None:
    first = ReportingHub(memory, stored, START)
    for turn in range(12):
        first.report_for(600.0, *([turn] if turn % 2 else []))
    first.set_clock(-HOUR)
    first.report_for(600.0, 100)
    first.history.close()
    second = ReportingHub(memory, stored, first.now)
    second._sequence = first._sequence
    second.report_for(2 * HOUR, 101)
    second.close()
    assert_no_overlap(stored)


@pytest.mark.parametrize("back", [600.0, HALF - 60.0])
def test_the_sums_of_the_hour_are_those_of_the_time_that_is_recorded_again(
    memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory, back: float
) -> None:
    hour = START - HALF
    hub = ReportingHub(memory, stored, hour)
    hub.report_for(HALF, 1)
    hub.set_clock(-back)
    hub.report_for(HOUR, 1, 2, busy_percent=0.0)
    hub.report_for(60.0)
    hub.close()
    by_pids = [one for one in stored.usage() if one.hour == hour]
    assert sum(one.sums.gpu_seconds for one in by_pids) == pytest.approx(HOUR, abs=3 * INTERVAL)
    # Half of the time that was recorded first was at work, and nothing of what replaced it.
    busy = sum(one.sums.busy_seconds for one in by_pids)
    assert busy == pytest.approx((HALF - back) / 2, abs=2 * INTERVAL)


@pytest.mark.parametrize("back", [100.0, HALF, 3 * HOUR])
def test_a_node_that_is_silent_after_the_clock_was_set_back_has_no_figures_of_that_time(
    memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory, back: float
) -> None:
    hub = ReportingHub(memory, stored, START - 4 * HOUR)
    hub.report_for(4 * HOUR, 1)
    hub.set_clock(-back)
    at = hub.now
    hub.hub.publish()
    while hub.now < at + back + HALF:
        hub.pass_time(INTERVAL)
        hub.hub.publish()
    hub.close()
    for grain in GRAINS:
        starts = [row.start for row in stored.series(grain)]
        assert max(starts) <= at <= max(starts) + grain
    known = sum(sum(decode_rows([row], row.uuids).seconds) for row in stored.series(10))
    assert known == pytest.approx(4 * HOUR - back, abs=2 * INTERVAL)
    assert all(one.end is not None and one.end <= at for one in stored.periods(FIRST_GPU))
