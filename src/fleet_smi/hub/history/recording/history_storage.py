"""The contract of the storage that a history recorder hands its write batches to."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from fleet_smi.hub.history.recording.rows import Checkpoint, RejectedRow, WriteBatch
from fleet_smi.hub.history.series.series_row import SeriesRow


class HistoryStorage(Protocol):
    """The durable queue that write batches go to."""

    def put(self, batch: WriteBatch) -> int:
        """Queue a batch to be written and return its number; never blocks."""

    def is_written(self, number: int) -> bool:
        """Whether a batch is on disk."""

    @property
    def is_behind(self) -> bool:
        """Whether so much is queued that reports of the past should wait with their senders."""

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be recorded."""

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to write has failed."""

    def take_rejected(self) -> list[RejectedRow]:
        """The rows that could never be written, since the last call."""

    def checkpoints(self) -> Iterable[Checkpoint]:
        """The latest checkpoint of each node; raise `StateError` when they cannot be read."""

    def unfinished_rows(self, since: Mapping[str, float]) -> Iterable[SeriesRow]:
        """The stored rows of which coarser rows, unfinished at a time per node, are to be made.

        The oldest come first; raise `StateError` when they cannot be read.
        """

    def recorded_until(self) -> float:
        """The latest time of any stored row, minus infinity without one; raise `StateError`."""
