"""Bounded queue of write batches: when it is full, the oldest batch is dropped first."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from fleet_smi.hub.history.recording.rows import WriteBatch

_ROW_BYTES = 600  # approximate memory of a row without its data


LostRange = tuple[float, float]
"""The first and the last time that dropped batches cover."""


class QueuedBatch(NamedTuple):
    """A batch with its number and the time when it was queued."""

    number: int
    at: float
    batch: WriteBatch


class WriteQueue:
    """Batches in the order in which they were queued.

    A dropped batch widens the `lost` range, which the writer stores as a gap and resets.
    """

    def __init__(self, max_bytes: int) -> None:
        self.last_number = 0
        """The number of the last batch that was queued."""
        self.lost: LostRange | None = None
        self._max_bytes = max_bytes
        self._batches: deque[QueuedBatch] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[QueuedBatch]:
        return iter(self._batches)

    @property
    def oldest_at(self) -> float | None:
        """When the oldest waiting batch was queued; `None` if none waits."""
        return self._batches[0].at if self._batches else None

    def put(self, batch: WriteBatch, now: float) -> int:
        """Queue a batch and return its number."""
        self.last_number += 1
        self._batches.append(QueuedBatch(self.last_number, now, batch))
        self._bytes += _size(batch)
        self._drop_oldest()
        return self.last_number

    def take(self, max_batches: int) -> list[QueuedBatch]:
        """Remove and return the oldest batches."""
        taken = [self._batches.popleft() for _ in range(min(max_batches, len(self._batches)))]
        self._bytes -= sum(_size(queued.batch) for queued in taken)
        return taken

    def requeue(self, taken: list[QueuedBatch]) -> None:
        """Put batches back, before all others."""
        self._batches.extendleft(reversed(taken))
        self._bytes += sum(_size(queued.batch) for queued in taken)
        self._drop_oldest()

    def mark_lost(self, start: float, end: float) -> None:
        """Extend the lost range."""
        lost = self.lost or (start, end)
        self.lost = (min(lost[0], start), max(lost[1], end))

    def _drop_oldest(self) -> None:
        # The newest batch always stays, however large: it may still be written.
        while self._bytes > self._max_bytes and len(self._batches) > 1:
            (oldest,) = self.take(1)
            _, at, following = self._batches[0]
            self.mark_lost(oldest.at, at)
            # Later rows refer to these nodes and GPUs, so their names must not be lost.
            following.nodes = oldest.batch.nodes + following.nodes
            following.gpus = oldest.batch.gpus + following.gpus
            following.removed_nodes = oldest.batch.removed_nodes + following.removed_nodes


def _size(batch: WriteBatch) -> int:
    data = sum(len(row.data) for row in batch.series)
    data += sum(len(checkpoint.data) for checkpoint in batch.checkpoints)
    rows = len(batch.series) + len(batch.checkpoints) + len(batch.periods) + len(batch.usage)
    rows += len(batch.occupancies) + len(batch.presence) + len(batch.moments)
    return data + _ROW_BYTES * rows
