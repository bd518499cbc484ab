"""The hub's clock is set back: the fleet stays live, and the history goes on and says so."""

import pytest

from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.node_store import NodeStore
from tests.builders import HOUR, NOON, snapshot
from tests.hub.history.in_memory_history import InMemoryHistory, relative_times
from tests.hub.history.reporting_node import FIRST_GPU, NODE_ID, busy_gpu

HALF = HOUR / 2
START = NOON // HOUR * HOUR + HALF
"""Half past a full hour."""
INTERVAL = 10


class ClockedHub:
    """A hub with a clock that tests set, and a node that reports to it."""

    def __init__(
        self, memory: NodeStore[NodeCheckpoint], stored: InMemoryHistory, now: float
    ) -> None:
        self.now = now
        self.fleet = FleetState()
        self.history = HistoryRecorder(self.fleet, stored)
        self.hub = Hub(self.fleet, [], memory, self.history, clock=lambda: self.now)
        self.hub._restore()
        self._sequence = 0

    def report_for(self, seconds: float, *pids: int, run_id: str = "run") -> None:
        """Report at every interval; the clock goes on."""
        end = self.now + seconds
        while self.now < end:
            self.now += INTERVAL
            self._sequence += 1
            sent = snapshot(
                busy_gpu(*pids),
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
    hub = ClockedHub(memory, stored, START - 4 * HOUR)
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
    before = ClockedHub(memory, stored, START)
    before.report_for(HALF, 1)
    before.history.close()
    after = ClockedHub(memory, stored, START - HOUR)
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
    hub = ClockedHub(memory, stored, START)
    hub.report_for(HALF, 1)
    hub.now -= 15.0
    hub.report_for(HALF, 1)
    hub.history.remove_node(NODE_ID, hub.now)
    hub.history.flush()
    assert "clock" not in caplog.text
    assert relative_times(stored.periods(FIRST_GPU)) == [(START + INTERVAL - NOON, hub.now - NOON)]
