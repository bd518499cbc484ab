"""What is due to be written down of the nodes, and up to where their reports are safe.

A node's history is written first, and the node itself only then: a hub that is killed knows no
report that its history lacks, so it takes what is sent again.
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
_PATIENCE_SECONDS, _GLANCE_SECONDS = 3.0, 0.005
# While the history of so many turns is not written, nobody has another.
_MOST_NOTING = 5


class _Page(Struct):
    """Nodes as they were at one moment, some of them `gone`.

    `noted` is the batch of the history that knows as much of them, and `saved` that of the
    memory. Those in `sequences` are to be told how much of theirs is safe.
    """

    noted: int
    nodes: list[NodeCheckpoint]
    gone: list[str]
    sequences: dict[str, _Sequence]
    saved: int = 0


class Checkpointer:
    """Has every node that changes written down once in so many turns."""

    def __init__(
        self,
        fleet: FleetState,
        node_store: NodeStore[NodeCheckpoint],
        history: HistoryRecorder | None,
        slots: TimeSlots,
    ) -> None:
        self._fleet = fleet
        self._memory = node_store
        self._history = history
        self._turns = slots
        self._changed: dict[str, None] = {}  # who has waited longest is first
        self._noting: deque[_Page] = deque()  # their history is being written
        self._saving: deque[_Page] = deque()
        self._kept: dict[str, _Sequence] = {}

    @property
    def consecutive_failures(self) -> int:
        """How many times in a row the disk would not take what there was to keep."""
        return self._memory.consecutive_failures

    def restore(self) -> None:
        """Tell the fleet what was kept."""
        for remembered in self._memory.load():
            self._fleet.restore(remembered)

    def mark_dirty(self, node_ids: Iterable[str]) -> None:
        """These are no longer as they were written."""
        self._changed.update(dict.fromkeys(node_ids))

    def run_slot(self) -> None:
        """Have those written whose turn it is, and see what has been."""
        self._see()
        due = self._due()
        if due and len(self._noting) < _MOST_NOTING:
            self._noting.append(self._begun(due))
            if not self._changed:
                self._hand_on()  # else the history is written with that of the next

    def flush(self) -> None:
        """Have all that has changed written at once, and see what has been."""
        self._see()
        if self._changed:
            self._noting.append(self._begun(list(self._changed)))
        while self._noting:
            self._save(self._noting.popleft())
        self._hand_on()

    async def wait_until_durable(self) -> None:
        """Wait until all that was given to be written is on the disk, if the disk takes it."""
        given = self._memory.last_batch
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._memory.durable_batch < given:
                    await asyncio.sleep(_GLANCE_SECONDS)

    def durable_sequence(self, snapshot: Snapshot) -> int | None:
        """The highest sequence of this snapshot's run that is on the disk, with all before it."""
        run_id, sequence = self._kept.get(snapshot.node_id, (None, 0))
        return sequence if run_id == snapshot.run_id else None

    def invalidate(self, node_id: str) -> None:
        """What was written of it no longer stands for all that it sent up to that number."""
        pages = [*self._saving, *self._noting]
        for kept in (self._kept, *[page.sequences for page in pages]):
            kept.pop(node_id, None)

    def _due(self) -> list[str]:
        """Those whose turn it is; up to half of it have some whose history is written anyway."""
        due, history = self._turns.due(self._changed), self._history
        if history is None:
            return due
        some = [node_id for node_id in history.unsaved if node_id in self._changed]
        both = dict.fromkeys([*some[: len(due) // 2], *due])
        return [node_id for node_id in both if not history.has_late_reports(node_id)][: len(due)]

    def _begun(self, node_ids: Collection[str]) -> _Page:
        """Let the history of these be written, and put by how they are now."""
        noted = 0 if self._history is None else self._history.schedule_save(node_ids)
        found = {node_id: self._fleet.checkpoint(node_id) for node_id in node_ids}
        for node_id in node_ids:
            del self._changed[node_id]
        known = [node for node in found.values() if node is not None]
        gone = [node_id for node_id, node in found.items() if node is None]
        return _Page(noted, known, gone, _sequences(known))

    def _hand_on(self) -> None:
        if self._history is not None:
            self._history.flush()

    def _see(self) -> None:
        while self._noting and self._is_noted(self._noting[0]):
            self._save(self._noting.popleft())
        while self._saving and self._is_safe(self._saving[0]):
            self._kept.update(self._saving.popleft().sequences)

    def _is_noted(self, page: _Page) -> bool:
        return self._history is None or self._history.is_saved(page.noted)

    def _is_safe(self, page: _Page) -> bool:
        return page.saved <= self._memory.durable_batch and self._is_noted(page)

    def _save(self, page: _Page) -> None:
        page.saved, page.nodes = self._memory.save(page.nodes, page.gone), []
        self._saving.append(page)


def _sequences(nodes: Iterable[NodeCheckpoint]) -> dict[str, _Sequence]:
    return {node.node_id: (node.snapshot.run_id, node.snapshot.sequence) for node in nodes}
