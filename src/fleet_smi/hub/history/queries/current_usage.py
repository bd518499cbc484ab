"""Usage of the current hour: written to the database before it is queried, by all hubs at once."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from fleet_smi.hub.history.recording.recorder import HistoryRecorder
from fleet_smi.hub.history.recording.rows import NodeRow, OpenIntervals
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.hub.history.storage.writer import HistoryWriter
from fleet_smi.model.history import Gap

_NODES_PER_STEP = 8  # between which other tasks of the event loop run
_WRITE_TIMEOUT_SECONDS, _WRITE_POLL_SECONDS = 10.0, 0.005
_MAX_AGE_SECONDS = 5.0
"""The maximum age of the sums of the current hour."""
_MIN_AGE_SECONDS = 1.0
"""Other hubs can have the sums written no more often than this."""


class RemoteHistory(Protocol):
    """What the other hubs of a cluster have in memory."""

    async def open_intervals(self, node_ids: list[str] | None) -> OpenIntervals:
        """Return the open intervals of these nodes, or of all."""

    async def series_rows(self, node_ids: list[str] | None, at: float | None) -> list[SeriesRow]:
        """Return rows that are not stored: unfinished ones, or those that hold at a time."""

    async def write_usage(self) -> str | None:
        """Have the sums of the current hour written; return whose are missing, as text."""

    def unheard(self) -> str | None:
        """Return which hubs cannot be asked now, as text; `None` if all can."""


class CurrentUsage:
    """Writes the sums of the current hour, unless that was done recently.

    Sums by user and by node are two queries: they agree because what is written stays as it is for
    some seconds. In a cluster one hub has all of them write, and they agree from hub to hub too.
    """

    def __init__(
        self,
        recorder: HistoryRecorder,
        writer: HistoryWriter,
        clock: Callable[[], float],
        list_nodes: Callable[[], Awaitable[list[NodeRow]]],
    ) -> None:
        self.remote: RemoteHistory | None = None
        self._recorder, self._writer, self._clock = recorder, writer, clock
        self._list_nodes = list_nodes
        self._lock, self._own_lock = asyncio.Lock(), asyncio.Lock()
        self._written_at = -_MAX_AGE_SECONDS
        self._batch = 0
        self._missing: str | None = None

    async def write(self) -> None:
        """Write the sums of this hub and of all others, unless that was done recently."""
        async with self._lock:  # concurrent callers wait and see the same sums
            if time.monotonic() - self._written_at < _MAX_AGE_SECONDS:
                return
            if self.remote is None:
                await self._write_own()
            else:
                # Together: it takes as long as the slowest hub.
                _, self._missing = await asyncio.gather(
                    self._write_own(), self.remote.write_usage()
                )

    async def write_for_others(self) -> bool:
        """Write the sums of this hub, because another one is queried; return whether they are."""
        # Not the lock of `write`, in which two hubs could wait for each other.
        if time.monotonic() - self._written_at >= _MIN_AGE_SECONDS:
            await self._write_own()
            self._missing = None if self.remote is None else self.remote.unheard()
        return self._writer.is_written(self._batch)

    def unwritten_time(self) -> Gap | None:
        """The time whose usage is not in the database yet; `None` where all is."""
        if not self._writer.is_written(self._batch):
            slow = Gap(start=self._writer.written_until, end=None, why="the database is slow")
            return self._writer.current_gap or slow
        if self._missing is None:
            return None
        now = self._clock()
        return Gap(start=now - now % 3600, end=None, why=self._missing)

    async def _write_own(self) -> None:
        async with self._own_lock:
            now = time.monotonic()
            ids = [node.node_id for node in await self._list_nodes()]
            for first in range(0, len(ids), _NODES_PER_STEP):
                # Through the recorder, whose batches are in order: these sums must not replace
                # later ones of the same hour.
                self._recorder.add_current_usage(ids[first : first + _NODES_PER_STEP])
                await asyncio.sleep(0)
            self._recorder.flush()
            self._batch = self._recorder.last_batch
            while (
                not self._writer.is_written(self._batch)
                and not self._writer.failures  # then waiting is of no use
                and time.monotonic() - now < _WRITE_TIMEOUT_SECONDS
            ):
                await asyncio.sleep(_WRITE_POLL_SECONDS)
            self._written_at = now
