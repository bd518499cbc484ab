"""While the history can take nothing, the fleet is live, and agents resend the rest afterwards."""

import pytest

from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.wire.report import Receipt
from tests.builders import NOON, snapshot
from tests.hub.history.in_memory_history import InMemoryHistory
from tests.hub.history.reporting_node import NODE_ID, busy_gpu
from tests.machines import wait_until


class ReportingHub:
    """A hub with a history that is full when the test says so, and one node."""

    def __init__(self, memory: NodeStore[NodeCheckpoint]) -> None:
        self.now = NOON
        self.stored = InMemoryHistory()
        fleet = FleetState()
        self.history = HistoryRecorder(fleet, self.stored)
        self.hub = Hub(fleet, [], memory, self.history, clock=lambda: self.now)
        self._memory = memory

    def report(self, *numbers: int) -> Receipt:
        """Send the reports of these seconds, each by a process of its own."""
        for number in numbers:
            self.now = max(self.now, NOON + number)
            card = busy_gpu(1000 + number)
            sent = snapshot(card, taken_at=NOON + number, sequence=number, run_id="run")
            age = self.now - sent.taken_at
            self.hub.deliver(
                Delivery(source="push", target=sent.node_id, result=sent, age_seconds=age)
            )
        return self.hub.receipt(sent)

    def make_room(self) -> None:
        """Let the history be written, and the hub see it."""
        self.stored.is_full = self.stored.is_behind = False
        self.hub.publish()

    def save(self) -> None:
        """Write everything, and look at what has been written."""
        for _ in range(2):
            self.history.tick(self.now)
            self.hub.publish()
            self.hub.checkpoint()
            wait_until(lambda: self._memory.durable_batch == self._memory.last_batch)


@pytest.fixture
def node(memory: NodeStore[NodeCheckpoint]) -> ReportingHub:
    return ReportingHub(memory)


def test_reports_that_a_full_history_cannot_take_are_shown_and_requested_again(
    node: ReportingHub, caplog: pytest.LogCaptureFixture
) -> None:
    before = node.report(*range(10))
    node.save()
    assert node.report(10).kept == 9
    node.stored.is_full = node.stored.is_behind = True
    during = node.report(*range(11, 30))
    shown = node.hub.fleet.node(NODE_ID, node.now)
    assert shown is not None
    assert shown.sequence == 29
    node.save()
    assert (during.kept, node.report(30).kept) == (9, 9)
    assert (before.recorded, during.recorded) == (True, False)
    node.make_room()
    after = node.report(31)
    assert during.hub == before.hub != after.hub
    assert after.kept == 9
    # As an agent does for a hub with another id: all that is not durable, the oldest first.
    again = node.report(*range(10, 32))
    assert (again.kept, again.recorded) == (None, True)
    node.report(32, 33)
    node.history.tick(node.now + 2)
    node.history.tick(node.now + 4)
    node.save()
    assert node.report(34).kept == 33
    assert [one.holder.pid for one in node.stored.occupancies()] == list(range(1000, 1034))
    assert shown.missing_reports == 0
    said = [record.getMessage() for record in caplog.records]
    assert [text.partition(":")[0] for text in said] == [
        "the history is full",
        "the history is recorded again",
    ]


def test_a_backlog_that_met_a_full_history_is_recorded_from_where_it_was(
    node: ReportingHub,
) -> None:
    node.now = NOON + 1000
    node.report(*range(10))
    node.stored.is_full = node.stored.is_behind = True
    node.report(*range(10, 20))
    node.save()
    node.make_room()
    node.report(*range(10, 40))  # the agent was refused meanwhile, and begins again
    node.save()
    node.save()
    node.history.remove_node(NODE_ID, node.now)
    node.history.flush()
    assert [one.holder.pid for one in node.stored.occupancies()] == list(range(1000, 1040))


def test_what_follows_an_unrecorded_report_is_not_recorded_before_it(node: ReportingHub) -> None:
    node.report(*range(10))
    node.stored.is_full = node.stored.is_behind = True
    during = node.report(10, 11)
    # Written by now, by its thread, while the rest of the same report is applied.
    node.stored.is_full = node.stored.is_behind = False
    assert node.report(12, 13).hub == during.hub
    node.make_room()
    assert node.hub.receipt_id != during.hub
    node.report(*range(10, 14))
    node.history.remove_node(NODE_ID, node.now)
    node.history.flush()
    assert [one.holder.pid for one in node.stored.occupancies()] == list(range(1000, 1014))
    shown = node.hub.fleet.node(NODE_ID, node.now)
    assert shown is not None
    assert shown.missing_reports == 0
