"""The one who writes history down, on a thread of its own: nobody waits for it.

Each batch is written whole or not at all. What cannot be written now waits; when there is
no more room to wait, the oldest is given up, and that this happened is written down as well.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from sqlalchemy import Connection, select

from fleet_smi.errors import StateError
from fleet_smi.hub.history.recording.restore import end_open_intervals
from fleet_smi.hub.history.recording.rows import Checkpoint, SeriesRow, WriteBatch
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.ids import IdCache
from fleet_smi.hub.history.storage.inserts import write_batch, write_gap
from fleet_smi.hub.history.storage.queue import LostRange, QueuedBatch, WriteQueue
from fleet_smi.hub.history.storage.retention import RetentionPolicy, prune_steps
from fleet_smi.hub.history.storage.series_reader import read_unfinished_rows
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.model.history import Gap
from fleet_smi.model.units import MIB

logger = logging.getLogger(__name__)
_LONGEST_WAIT_SECONDS = 30.0
_MOST_AT_ONCE = 32
_NO_MORE = object()


class HistoryWriter:
    """Writes to a store what it is given, and takes away what is too old."""

    def __init__(
        self,
        store: HistoryStore,
        retention: RetentionPolicy,
        *,
        clock: Callable[[], float] = time.time,
        retry_seconds: float = 1.0,
        prune_interval_seconds: float = 60.0,
        max_queued_bytes: int = 64 * MIB,
    ) -> None:
        self.last_written = 0
        """The number of the last batch that is written, with all before it but those in gaps."""
        self.failures = 0
        """How many times in a row the store would not take what there was to write."""
        self.last_error: str | None = None
        """Why something could not be written, until all can be again."""
        self._store = store
        self._keep = retention
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._upkeep_seconds = prune_interval_seconds
        self._waiting = WriteQueue(max_queued_bytes)
        self._writing: list[QueuedBatch] = []
        self._at_once = _MOST_AT_ONCE
        self._keys = IdCache()
        self._told_aside: str | None = None
        self._recalled = False
        self._turns: Iterator[None] | None = None
        self._upkeep_due = 0.0
        self._closing = False
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    @property
    def last_queued(self) -> int:
        """The number of the last batch that there was to write."""
        return self._waiting.last_number

    @property
    def current_gap(self) -> Gap | None:
        """What cannot be written, whether it still waits or was given up; `None` once it can."""
        since = [
            at for at in (self._waiting.oldest_at, *(self._waiting.lost or ())) if at is not None
        ]
        if not self._waiting.lost and not self.failures:
            return None
        return Gap(start=min(since, default=self._clock()), end=None, why=self._why())

    def put(self, batch: WriteBatch) -> int:
        """Let a batch be written soon; its number. Never waits."""
        with self._news:
            self._news.notify()
            return self._waiting.put(batch, self._clock())

    def pending_batches(self) -> list[WriteBatch]:
        """What waits or is being written, the oldest first."""
        with self._news:
            return [each.batch for each in (*self._writing, *self._waiting)]

    def is_done(self, number: int) -> bool:
        """Whether a batch is written, or there is no telling when one can be."""
        return self.last_written >= number or self.failures > 0

    def checkpoints(self) -> list[Checkpoint]:
        """All that was open when somebody wrote here last; raise `StateError`."""
        with self._store.read_transaction() as connection:
            found = _checkpoints(connection)
        self._recalled = True
        return found

    def unfinished_rows(self, since: Mapping[str, float]) -> list[SeriesRow]:
        """Those of these nodes that are in longer rows which were not done at a moment."""
        with self._store.read_transaction() as connection:
            return read_unfinished_rows(connection, since)

    def close(self) -> None:
        """Write what is left, and end the thread."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._closing or len(self._waiting), self._idle())
                closing, taken = self._closing, self._waiting.take(self._at_once)
                self._writing = taken
            if taken:
                self._attempt(self._write, taken)
            elif not closing:
                self._attempt(self._tidy, taken)
            self._writing = []
            if closing and (self.failures or not taken):
                return

    def _idle(self) -> float:
        """How long there is nothing to do but to wait for a batch."""
        return max(0.0, self._upkeep_due - time.monotonic())

    def _attempt(self, work: Callable[[list[QueuedBatch]], None], taken: list[QueuedBatch]) -> None:
        try:
            work(taken)
        except StateError as error:
            self._failed(str(error), taken)
        except Exception as error:  # noqa: BLE001  # one bad row must not end the history
            self._stumbled(error, taken)
        else:
            if self.failures:
                logger.warning("history is written again, after %d failures", self.failures)
            self.failures = 0
            if self._waiting.lost is None:  # else that is still to be told, and why
                self.last_error = None
            if taken:
                self.last_written = taken[
                    -1
                ].number  # last: who waits for it finds all the rest told

    def _write(self, taken: list[QueuedBatch]) -> None:
        lost = self._waiting.lost
        with self._store.write_transaction() as connection:
            for gap in self._gaps(lost):
                write_gap(connection, gap)
            if not self._recalled:
                # Nobody could go on from them: what was open is told before they are replaced.
                left = end_open_intervals(
                    _checkpoints(connection), partial(read_unfinished_rows, connection)
                )
                write_batch(connection, self._keys, left)
            for each in taken:
                write_batch(connection, self._keys, each.batch)
        self._recalled = True
        self._told_aside = self._store.damage_message
        self._at_once = _MOST_AT_ONCE
        with self._news:
            if self._waiting.lost == lost:
                self._waiting.lost = None

    def _gaps(self, lost: LostRange | None) -> Iterator[Gap]:
        if lost is not None:
            yield Gap(start=lost[0], end=lost[1], why=self._why())
        aside = self._store.damage_message
        if aside is not None and aside != self._told_aside:
            yield Gap(start=0.0, end=self._clock(), why=aside)

    def _why(self) -> str:
        return self.last_error or "it could not be written"

    def _tidy(self, _: list[QueuedBatch]) -> None:
        """Do a little of what is to be done from time to time."""
        if self._turns is None:
            self._upkeep_due = 0.0
            self._turns = prune_steps(self._store, self._keep, self._clock())
        if next(self._turns, _NO_MORE) is _NO_MORE:
            self._rest()

    def _rest(self) -> None:
        self._turns = None
        self._upkeep_due = time.monotonic() + self._upkeep_seconds

    def _failed(self, words: str, taken: list[QueuedBatch]) -> None:
        """The store will not have it now: keep it, and try again later."""
        self.failures += 1
        if self.failures == 1:
            logger.warning("history is not written; what is shown goes on: %s", words)
        self.last_error = words
        self._keys.invalidate()
        self._rest()
        wait_seconds = min(_LONGEST_WAIT_SECONDS, self._retry_seconds * self.failures)
        with self._news:
            self._waiting.requeue(taken)
            self._news.wait_for(lambda: self._closing, wait_seconds)

    def _stumbled(self, error: Exception, taken: list[QueuedBatch]) -> None:
        """Something in it can never be written: find which batch that is, and give it up."""
        self._keys.invalidate()
        self._rest()
        self._at_once = 1
        with self._news:
            if len(taken) > 1:
                self._waiting.requeue(taken)
                return
            for each in taken:
                self._waiting.mark_lost(each.at, self._clock())
        self.last_error = f"a bug: {error!r}"
        logger.error("a part of the history cannot be written", exc_info=error)


def _checkpoints(connection: Connection) -> list[Checkpoint]:
    kept, nodes = schema.checkpoints.c, schema.nodes.c
    rows = select(nodes.node_id, kept.data).where(nodes.key == kept.node)
    return [Checkpoint(node_id=node_id, data=data) for node_id, data in connection.execute(rows)]
