"""Queue of write batches. It never drops one: senders are slowed down before it grows too large."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from fleet_smi.hub.history.recording.rows import WriteBatch

_ROW_BYTES = 600  # approximate memory of a row without its data


class QueuedBatch(NamedTuple):
    """A batch with its number, the time when it was queued, and when the one before was."""

    number: int
    since: float
    at: float
    batch: WriteBatch
    size: int


class WriteQueue:
    """Batches in the order in which they were queued; those taken count until they are `done`."""

    def __init__(self) -> None:
        self.size_bytes = 0
        """The approximate memory of all batches that are not written yet."""
        self._last_number = 0
        self._last_at: float | None = None
        self._batches: deque[QueuedBatch] = deque()

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[QueuedBatch]:
        return iter(self._batches)

    def put(self, batch: WriteBatch, now: float) -> int:
        """Queue a batch and return its number."""
        self._last_number += 1
        since = now if self._last_at is None else min(self._last_at, now)
        queued = QueuedBatch(self._last_number, since, now, batch, _size(batch))
        self._batches.append(queued)
        self._last_at = now
        self.size_bytes += queued.size
        return self._last_number

    def take(self, max_batches: int) -> list[QueuedBatch]:
        """Remove and return the oldest batches."""
        return [self._batches.popleft() for _ in range(min(max_batches, len(self._batches)))]

    def done(self, taken: list[QueuedBatch]) -> None:
        """Count taken batches no longer: they are written, or can never be."""
        self.size_bytes -= sum(queued.size for queued in taken)

    def requeue(self, taken: list[QueuedBatch]) -> None:
        """Put batches back, before all others."""
        self._batches.extendleft(reversed(taken))


def _size(batch: WriteBatch) -> int:
    data = sum(len(row.data) for row in batch.series)
    data += sum(len(checkpoint.data) for checkpoint in batch.checkpoints)
    rows = len(batch.series) + len(batch.checkpoints) + len(batch.periods) + len(batch.usage)
    rows += len(batch.occupancies) + len(batch.presence) + len(batch.moments)
    return data + _ROW_BYTES * rows
