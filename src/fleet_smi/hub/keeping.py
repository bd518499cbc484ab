"""What is due to be written down of the nodes, and up to where their reports are safe."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Collection, Iterable

from fleet_smi.hub.fleet import Fleet, Remembered
from fleet_smi.hub.memory import Memory
from fleet_smi.hub.turns import Turns
from fleet_smi.model.snapshot import Snapshot

_Sequence = tuple[str | None, int]
_PATIENCE_SECONDS, _GLANCE_SECONDS = 3.0, 0.005


class Keeping:
    """Has every node that changes written down once in so many turns."""

    def __init__(self, fleet: Fleet, memory: Memory[Remembered], turns: Turns) -> None:
        self._fleet = fleet
        self._memory = memory
        self._turns = turns
        self._changed: set[str] = set()
        self._saving: deque[tuple[int, dict[str, _Sequence]]] = deque()
        self._kept: dict[str, _Sequence] = {}

    @property
    def failures(self) -> int:
        """How many times in a row the disk would not take what there was to keep."""
        return self._memory.failures

    def recall(self) -> None:
        """Tell the fleet what was kept."""
        for remembered in self._memory.load():
            self._fleet.restore(remembered)

    def changed(self, node_ids: Iterable[str]) -> None:
        """These are no longer as they were written."""
        self._changed.update(node_ids)

    def turn(self) -> None:
        """Have those written whose turn it is, and see what has been."""
        self._write(self._turns.due(self._changed))

    def write_all(self) -> None:
        """Have all that has changed written, and see what has been."""
        self._write(tuple(self._changed))

    async def written(self) -> None:
        """Wait until all that was given to be written is on the disk, if the disk takes it."""
        given = self._memory.given
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self._memory.kept < given:
                    await asyncio.sleep(_GLANCE_SECONDS)

    def kept(self, snapshot: Snapshot) -> int | None:
        """The highest sequence of this snapshot's run that is on the disk, with all before it."""
        run_id, sequence = self._kept.get(snapshot.node_id, (None, 0))
        return sequence if run_id == snapshot.run_id else None

    def unkeep(self, node_id: str) -> None:
        """What was written of it no longer stands for all that it sent up to that number."""
        for kept in (self._kept, *(sequences for _, sequences in self._saving)):
            kept.pop(node_id, None)

    def _write(self, node_ids: Collection[str]) -> None:
        while self._saving and self._saving[0][0] <= self._memory.kept:
            self._kept.update(self._saving.popleft()[1])
        if node_ids:
            nodes = {node_id: self._fleet.remembered(node_id) for node_id in node_ids}
            self._changed.difference_update(node_ids)
            known = [node for node in nodes.values() if node is not None]
            gone = [node_id for node_id, node in nodes.items() if node is None]
            self._saving.append((self._memory.save(known, gone), _sequences(known)))


def _sequences(nodes: Iterable[Remembered]) -> dict[str, _Sequence]:
    return {node.node_id: (node.snapshot.run_id, node.snapshot.sequence) for node in nodes}
