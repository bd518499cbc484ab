"""Batches that wait to be written: as many as there is room for, the oldest given up first."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from fleet_smi.hub.history.recording.rows import WriteBatch

_ROW_BYTES = 600  # about what a row takes in memory beside its data


LostRange = tuple[float, float]
"""From when to when."""


class QueuedBatch(NamedTuple):
    """A batch, which one it is, and when it came."""

    number: int
    at: float
    batch: WriteBatch


class WriteQueue:
    """What waits. Whatever is given up leaves a `lost` stretch until somebody writes that down."""

    def __init__(self, max_bytes: int) -> None:
        self.last_number = 0
        """The number of the last batch that came."""
        self.lost: LostRange | None = None
        self._most_bytes = max_bytes
        self._batches: deque[QueuedBatch] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[QueuedBatch]:
        return iter(self._batches)

    @property
    def oldest_at(self) -> float | None:
        """When the oldest of them came."""
        return self._batches[0].at if self._batches else None

    def put(self, batch: WriteBatch, now: float) -> int:
        """Let a batch wait; its number."""
        self.last_number += 1
        self._batches.append(QueuedBatch(self.last_number, now, batch))
        self._bytes += _size(batch)
        self._make_room()
        return self.last_number

    def take(self, max_batches: int) -> list[QueuedBatch]:
        """The oldest of them, which wait no longer."""
        taken = [self._batches.popleft() for _ in range(min(max_batches, len(self._batches)))]
        self._bytes -= sum(_size(each.batch) for each in taken)
        return taken

    def requeue(self, taken: list[QueuedBatch]) -> None:
        """Let these wait again, before all others."""
        self._batches.extendleft(reversed(taken))
        self._bytes += sum(_size(each.batch) for each in taken)
        self._make_room()

    def mark_lost(self, start: float, end: float) -> None:
        """What came between these two will not be written."""
        was = self.lost or (start, end)
        self.lost = (min(was[0], start), max(was[1], end))

    def _make_room(self) -> None:
        while self._bytes > self._most_bytes and len(self._batches) > 1:
            (oldest,) = self.take(1)
            _, at, following = self._batches[0]
            self.mark_lost(oldest.at, at)
            # What things are called is needed by all that follows.
            following.nodes = oldest.batch.nodes + following.nodes
            following.gpus = oldest.batch.gpus + following.gpus
            following.removed_nodes = oldest.batch.removed_nodes + following.removed_nodes


def _size(batch: WriteBatch) -> int:
    data = sum(len(row.data) for row in batch.series)
    data += sum(len(checkpoint.data) for checkpoint in batch.checkpoints)
    rows = len(batch.series) + len(batch.checkpoints) + len(batch.periods) + len(batch.usage)
    rows += len(batch.occupancies) + len(batch.presence) + len(batch.moments)
    return data + _ROW_BYTES * rows
