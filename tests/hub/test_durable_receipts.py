"""Receipts: the sequence that is called durable never exceeds what is on disk."""

import pytest

from fleet_smi.fleet.delivery import Delivery
from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.hub.hub import Hub
from fleet_smi.hub.node_store import NodeStore
from tests.builders import gpu, snapshot
from tests.machines import wait_until


class Reporting:
    """A node that reports to a hub, which saves when the test says so."""

    def __init__(self, memory: NodeStore[NodeCheckpoint]) -> None:
        self._hub = Hub(FleetState(), [], memory)
        self._memory = memory
        self._batches = 0

    def report(self, *numbers: int) -> int | None:
        """Send these; the number up to which the hub then says that it keeps them."""
        sent = [snapshot(gpu(), taken_at=1e9 + at, sequence=at, run_id="life") for at in numbers]
        for one in sent:
            self._hub.deliver(Delivery(source="push", target=one.node_id, result=one))
        return self._hub.receipt(sent[-1]).kept

    def give_to_disk(self) -> None:
        """Have what is known written down, and wait until it is; the hub has not yet looked."""
        self._hub.publish()
        self._hub.checkpoint()
        self._batches += 1
        wait_until(lambda: self._memory.durable_batch == self._batches)

    def look_at_disk(self) -> None:
        """Let the hub see what has been written."""
        self._hub.checkpoint()


@pytest.fixture
def node(memory: NodeStore[NodeCheckpoint]) -> Reporting:
    return Reporting(memory)


def test_a_filled_gap_is_not_durable_before_it_is_written(node: Reporting) -> None:
    node.report(3)
    node.give_to_disk()
    node.look_at_disk()
    assert node.report(1, 2) is None
    assert node.report(4) is None
    node.give_to_disk()
    node.look_at_disk()
    assert node.report(5) == 4


def test_a_gap_filled_during_a_slow_write_is_not_durable_yet(node: Reporting) -> None:
    node.report(3)
    node.give_to_disk()
    node.report(1, 2)
    node.look_at_disk()
    assert node.report(4) is None
