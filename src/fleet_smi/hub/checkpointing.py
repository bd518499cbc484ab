"""Checkpoint scheduler: when nodes are saved, and up to which report each is durable.

The history of a node is written before the node itself. A hub that is killed in between then
restarts from an older checkpoint, and accepts again the reports that its history lacks.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Collection, Iterable

from msgspec import Struct

from fleet_smi.fleet.fleet import FleetState, NodeCheckpoint
from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.node_store import NodeStore
from fleet_smi.hub.time_slots import TimeSlots
from fleet_smi.model.snapshot import Snapshot

_Sequence = tuple[str | None, int]
# An admin's request waits for the disk this long; a full disk must not block it for ever.
_DURABLE_TIMEOUT_SECONDS, _DURABLE_POLL_SECONDS = 3.0, 0.005
# Slots whose history is not yet written: with more of them, no further slot begins. Each holds
# copies of its nodes, which would pile up in memory while the history cannot be written.
_MAX_PENDING_HISTORY = 5
CHECKPOINT_SLOTS = 5
"""In how many parts the nodes of one interval are saved."""
# More would wear the disk; of a larger fleet each node is saved less often, and its agent
# keeps unsaved reports for that long.
_MAX_CHECKPOINTS_PER_SECOND = 50


def checkpoint_slots(checkpoint_seconds: float) -> TimeSlots:
    """The slots by which nodes are saved: each once per interval, as far as the limit allows."""
    per_slot = _MAX_CHECKPOINTS_PER_SECOND * checkpoint_seconds / CHECKPOINT_SLOTS
    return TimeSlots(CHECKPOINT_SLOTS, max(1, round(per_slot)))


class _Batch(Struct):
    """The nodes of one slot as they were at one moment, some of them removed.

    `history_batch` is the batch of the history writer that covers them, `store_batch` that of
    the node store. `sequences` become durable with both.
    """

    history_batch: int
    nodes: list[NodeCheckpoint]
    removed: list[str]
    sequences: dict[str, _Sequence]
    store_batch: int = 0


class Checkpointer:
    """Saves every changed node, in turns by time slots: first its history, then the node."""

    def __init__(
        self,
        fleet: FleetState,
        node_store: NodeStore[NodeCheckpoint],
        history: HistoryRecorder | None,
        slots: TimeSlots,
    ) -> None:
        self._fleet = fleet
        self._node_store = node_store
        self._history = history
        self._slots = slots
        self._dirty: dict[str, None] = {}  # the longest waiting first
        # A batch moves from the first queue to the second, and then its sequences to `durable`.
        self._awaiting_history: deque[_Batch] = deque()
        self._awaiting_store: deque[_Batch] = deque()
        self.durable: dict[str, _Sequence] = {}
        """By node: a run, and up to which of its reports are on disk; replaced, never changed."""
        # Nodes that could not be restored: their records stay on disk until they report again.
        self._unreadable: set[str] = set()

    @property
    def failures_total(self) -> int:
        """Failed writes of nodes since the start."""
        return self._node_store.failures_total

    def restore(self) -> None:
        """Load the saved nodes into the fleet; one that cannot be restored is listed as that."""
        for checkpoint in self._node_store.load(self._set_unreadable_aside):
            try:
                self._fleet.restore(checkpoint)
            except Exception as error:  # noqa: BLE001  # the others are to be restored
                self._set_unreadable_aside(checkpoint.node_id, checkpoint.name, error)

    def _set_unreadable_aside(self, node_id: str, name: str, error: Exception) -> None:
        self._unreadable.add(node_id)
        self._fleet.restore_unreadable(node_id, name, error)

    def mark_dirty(self, node_ids: Iterable[str]) -> None:
        """Mark nodes that differ from their last checkpoint."""
        # A node that changes again keeps its place in the queue.
        self._dirty.update(dict.fromkeys(node_ids))

    def run_slot(self) -> None:
        """Start saving the nodes of this time slot, and advance the batches under way."""
        self._advance()
        due = self._due()
        if due and len(self._awaiting_history) < _MAX_PENDING_HISTORY:
            self._awaiting_history.append(self._begin(due))
            if not self._dirty:
                self._flush_history()  # otherwise it is written with that of the next slot

    def flush(self) -> None:
        """Start saving all changed nodes now, without waiting for their history."""
        self._advance()
        if self._dirty:
            self._awaiting_history.append(self._begin(list(self._dirty)))
        # Not in the usual order: an admin or the shutdown waits for this. Until the history is
        # written too, `_is_durable` reports none of it.
        while self._awaiting_history:
            self._save(self._awaiting_history.popleft())
        self._flush_history()

    async def wait_until_durable(self) -> None:
        """Wait until all nodes handed to the store are on disk; give up after a few seconds."""
        last = self._node_store.last_batch
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DURABLE_TIMEOUT_SECONDS):
                while self._node_store.durable_batch < last:
                    await asyncio.sleep(_DURABLE_POLL_SECONDS)

    async def finish(self) -> None:
        """Save all nodes whose history is written within a few seconds; the end of the hub.

        Any other stays as it was saved last: its agent sends again what came since.
        """
        self._advance()
        if self._dirty:
            self._awaiting_history.append(self._begin(list(self._dirty)))
        if self._history is not None:
            self._history.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DURABLE_TIMEOUT_SECONDS):
                while self._awaiting_history and not self._is_history_failing():
                    await asyncio.sleep(_DURABLE_POLL_SECONDS)
                    self._advance()
        self._awaiting_history.clear()

    def _is_history_failing(self) -> bool:
        return self._history is not None and self._history.is_failing

    def durable_sequence(self, snapshot: Snapshot, node_id: str | None = None) -> int | None:
        """The highest number of its run that is on disk with all before it; `None` if none is.

        `node_id` is that of its node, where the snapshot has the id of another machine.
        """
        run_id, sequence = self.durable.get(node_id or snapshot.node_id, (None, 0))
        return sequence if run_id == snapshot.run_id else None

    def invalidate(self, node_id: str) -> None:
        """Withdraw what was called durable of a node: its records before that point change."""
        # In batches under way too: they were copied before the change, and would call it durable.
        batches = [*self._awaiting_store, *self._awaiting_history]
        for sequences in (self.durable, *[batch.sequences for batch in batches]):
            sequences.pop(node_id, None)

    def release(self, node_id: str) -> None:
        """Save no more of a node: another hub does that now."""
        self.invalidate(node_id)
        self._dirty.pop(node_id, None)
        for batch in self._awaiting_history:
            batch.nodes = [node for node in batch.nodes if node.node_id != node_id]
            batch.removed = [each for each in batch.removed if each != node_id]

    def _due(self) -> list[str]:
        """The nodes of this slot; up to half of it goes to nodes whose history is due anyway."""
        due, history = self._slots.due(self._dirty), self._history
        if history is None:
            return due
        unsaved = [node_id for node_id in history.unsaved if node_id in self._dirty]
        # Their history is written in any case, so saving them now adds no write to it. Only half
        # of the slot: the nodes that wait longest must not be displaced by them.
        candidates = dict.fromkeys([*unsaved[: len(due) // 2], *due])
        # Not while late reports of a node arrive: saving it now would split their history in two.
        ready = [node_id for node_id in candidates if not history.has_late_reports(node_id)]
        return ready[: len(due)]

    def _begin(self, node_ids: Collection[str]) -> _Batch:
        """Hand the history of these nodes to its writer, and copy their state of this moment."""
        # Saved as it is now, a node would be newer than its history: it stays dirty.
        node_ids = [each for each in node_ids if not self._fleet.is_ahead_of_history(each)]
        # Nothing is awaited from here to the copy: history and checkpoint are of one moment.
        history_batch = 0 if self._history is None else self._history.schedule_save(node_ids)
        present: list[NodeCheckpoint] = []
        removed: list[str] = []
        for node_id in node_ids:
            del self._dirty[node_id]
            try:
                checkpoint = self._fleet.checkpoint(node_id)
            except Exception as error:  # noqa: BLE001  # the others are to be saved
                self._set_aside(node_id, error)
                continue
            if checkpoint is not None:
                present.append(checkpoint)
            elif node_id not in self._unreadable or not self._fleet.has_node(node_id):
                removed.append(node_id)
        return _Batch(history_batch, present, removed, _sequences(present))

    def _set_aside(self, node_id: str, error: Exception) -> None:
        """Set aside a node that cannot be saved: it is not durable until it changes again."""
        self.invalidate(node_id)
        self._fleet.faults.record("checkpoint", node_id, error)

    def _flush_history(self) -> None:
        if self._history is not None:
            self._history.flush()

    def _advance(self) -> None:
        """Save the nodes whose history is on disk; record what both writers have finished."""
        # Only the head of each queue: batches are written in the order of their numbers.
        while self._awaiting_history and self._is_in_history(self._awaiting_history[0]):
            self._save(self._awaiting_history.popleft())
        while self._awaiting_store and self._is_durable(self._awaiting_store[0]):
            batch = self._awaiting_store.popleft()
            # After the batch was found durable, so that its own failures are among them.
            failures = self._node_store.take_failures()
            for node_id, error in failures.items():
                batch.sequences.pop(node_id, None)
                self._set_aside(node_id, error)
            self.durable.update(batch.sequences)
            if self._fleet.faults:
                for node_id in batch.sequences:
                    self._fleet.faults.clear("checkpoint", node_id)

    def _is_in_history(self, batch: _Batch) -> bool:
        return self._history is None or self._history.is_saved(batch.history_batch)

    def _is_durable(self, batch: _Batch) -> bool:
        # The history too: `flush` saves nodes without waiting for it.
        is_stored = batch.store_batch <= self._node_store.durable_batch
        return is_stored and self._is_in_history(batch)

    def _save(self, batch: _Batch) -> None:
        batch.store_batch = self._node_store.save(batch.nodes, batch.removed)
        batch.nodes = []  # only the sequences are still needed
        self._awaiting_store.append(batch)


def _sequences(nodes: Iterable[NodeCheckpoint]) -> dict[str, _Sequence]:
    """The latest number of each node that is in its history."""
    # Not that of the snapshot: while the history is full, the latest are shown but not recorded.
    numbers = [(node, node.sequences.last(node.snapshot.run_id)) for node in nodes]
    return {
        node.node_id: (node.snapshot.run_id, number)
        for node, number in numbers
        if number is not None
    }
