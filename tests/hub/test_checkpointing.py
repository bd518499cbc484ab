"""Checkpoints: the history of a node is written first, and only then is it durable."""

from typing import Any

import pytest

from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.hub.checkpointing import Checkpointer
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.hub.time_slots import TimeSlots
from fleet_smi.model.snapshot import Gpu, Snapshot
from tests.builders import NOON, gpu, snapshot
from tests.hub.history.in_memory_history import InMemoryHistory
from tests.hub.history.reporting_node import busy_gpu
from tests.machines import wait_until


class Slow(InMemoryHistory):
    """A keeper who has written no more than it is let."""

    done = 0

    def is_written(self, number: int) -> bool:
        return number <= self.done


class OneNode:
    """One node, of which all that changes is due at each turn."""

    def __init__(self, memory: NodeStore[NodeCheckpoint]) -> None:
        self.memory = memory
        self.keeper = Slow()
        self._fleet = FleetState()
        self.history = HistoryRecorder(self._fleet, self.keeper)
        self.keeping = Checkpointer(self._fleet, memory, self.history, TimeSlots(1))

    def report(self, sequence: int) -> int | None:
        """The number up to which the receipt says that reports are durable."""
        sent = sample(sequence)
        change = self._fleet.apply(sent, NOON + sequence)
        assert change is not None
        self.history.record(change)
        if change.is_late:
            self.keeping.invalidate(sent.node_id)
        return self.keeping.durable_sequence(sent)

    def turn(self) -> None:
        """A turn, and all that it gave to the disk is written."""
        self.keeping.mark_dirty(self._fleet.take_dirty())
        self.keeping.run_slot()
        wait_until(lambda: self.memory.durable_batch == self.memory.last_batch)

    def write_history(self) -> None:
        self.history.flush()
        self.keeper.done = len(self.keeper.batches)


def sample(sequence: int, *gpus: Gpu, **fields: Any) -> Snapshot:
    made: dict[str, Any] = {
        "sequence": sequence,
        "run_id": "run",
        "taken_at": NOON + sequence,
    } | fields
    return snapshot(*gpus or (gpu(),), **made)


@pytest.fixture
def node(memory: NodeStore[NodeCheckpoint]) -> OneNode:
    return OneNode(memory)


def test_a_node_is_saved_only_after_its_history(node: OneNode) -> None:
    node.report(1)
    node.turn()
    node.report(2)
    node.turn()
    assert (node.memory.last_batch, node.report(3)) == (0, None)
    node.write_history()
    node.turn()
    (remembered,) = node.memory.load()
    assert remembered.snapshot.sequence == 2


def test_only_a_few_slots_wait_for_a_history_that_is_not_written(node: OneNode) -> None:
    for sequence in range(1, 21):
        node.report(sequence)
        node.turn()
    assert node.memory.last_batch == 0
    node.write_history()
    node.turn()
    assert node.memory.last_batch == 5
    node.write_history()
    node.turn()
    node.turn()
    assert node.report(21) == 20


def test_a_durable_sequence_is_in_history_and_node_store(node: OneNode) -> None:
    node.report(1)
    node.turn()
    assert len(node.keeper.batches) == 1  # nobody else waits, so it is handed on at once
    node.write_history()
    node.turn()
    node.turn()
    assert node.report(2) == 1


def test_a_node_with_late_reports_is_saved_after_them(node: OneNode) -> None:
    node.report(1)
    node.report(60)
    node.report(20)
    node.turn()
    assert not node.keeper.batches
    for now in (61, 64):  # nothing more comes
        node.history.tick(NOON + now)
    node.turn()
    node.write_history()
    node.turn()
    node.turn()
    assert node.report(61) == 60
    assert NOON + 20 in [one.start for one in node.keeper.periods(gpu().uuid)]


def test_flush_saves_everything_and_reports_nothing_durable_too_early(node: OneNode) -> None:
    node.report(1)
    node.keeping.mark_dirty(["id-of-gpu01"])
    node.keeping.flush()
    wait_until(lambda: node.memory.durable_batch == 1)
    node.turn()
    assert node.report(2) is None
    node.write_history()
    node.turn()
    assert node.report(3) == 1


def test_nodes_whose_history_is_written_anyway_are_saved_first(
    memory: NodeStore[NodeCheckpoint],
) -> None:
    fleet = FleetState()
    keeper = InMemoryHistory()
    history = HistoryRecorder(fleet, keeper)
    keeping = Checkpointer(fleet, memory, history, TimeSlots(1, max_per_slot=4))

    def report(number: int, sequence: int, *gpus: Gpu) -> Snapshot:
        sent = sample(sequence, *gpus, node=f"gpu{number:03}")
        change = fleet.apply(sent, NOON + sequence)
        assert change is not None
        history.record(change)
        return sent

    first = [report(number, 1, gpu()) for number in range(150)]
    history.close()
    for number in (149, 148, 147):
        report(number, 2, busy_gpu(1))
    keeping.mark_dirty([one.node_id for one in first])
    keeping.run_slot()
    assert len(keeper.batches) == 1  # others wait: it is handed on with the next
    history.flush()
    for _ in range(2):
        keeping.run_slot()
        wait_until(lambda: memory.durable_batch == memory.last_batch)
    stored = [
        number for number, one in enumerate(first) if keeping.durable_sequence(one) is not None
    ]
    assert len(stored) == 4
    assert stored[:2] == [0, 1]
    assert set(stored[2:]) < {147, 148, 149}
