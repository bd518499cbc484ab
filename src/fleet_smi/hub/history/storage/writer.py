"""History writer: a thread that writes queued batches, retries failures and prunes old rows.

Each batch is written in one transaction. What cannot be written stays in the queue: when that is
full, the hub records no further reports, and agents buffer them until it does again. Only a row
that the database rejects is left out; that is logged, and shown as a gap and at its node.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import chain
from math import inf

from sqlalchemy import Connection, select

from fleet_smi.errors import StateError
from fleet_smi.hub.history.recording.restore import end_open_intervals
from fleet_smi.hub.history.recording.rows import Checkpoint, RejectedRow, WriteBatch
from fleet_smi.hub.history.series.codec import GRAINS, MAX_ROW_SECONDS
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.ids import IdCache
from fleet_smi.hub.history.storage.inserts import write_batch, write_gap
from fleet_smi.hub.history.storage.ledger_shares import LedgerShares
from fleet_smi.hub.history.storage.partitions import partitions_of
from fleet_smi.hub.history.storage.queue import QueuedBatch, WriteQueue
from fleet_smi.hub.history.storage.replaced_rows import read_recorded_until
from fleet_smi.hub.history.storage.retention import RetentionPolicy, prune_steps
from fleet_smi.hub.history.storage.retention_time import RetentionTime
from fleet_smi.hub.history.storage.row_isolation import write_isolated
from fleet_smi.hub.history.storage.series_reader import read_unfinished_rows
from fleet_smi.hub.history.storage.shared_writes import WriteFence
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.hub.history.storage.unreferenced import prune_unreferenced
from fleet_smi.model.history import Gap
from fleet_smi.model.units import MIB

logger = logging.getLogger(__name__)
_MAX_RETRY_SECONDS = 30.0
_MAX_BATCHES_PER_TRANSACTION = 32
_UNREFERENCED_AFTER_SECONDS = 3600.0
# Of a full queue: above it old reports, which can wait with their agents, are refused.
_BACKLOG_SHARE = 0.5
_MAX_REJECTED = 1000  # that wait to be shown
_FINISHED = object()


class HistoryWriter:
    """Writes batches to a store, and applies the retention policy when idle."""

    def __init__(
        self,
        store: HistoryStore,
        retention: RetentionPolicy,
        *,
        clock: Callable[[], float] = time.time,
        retry_seconds: float = 1.0,
        prune_interval_seconds: float = 60.0,
        max_queued_bytes: int = 64 * MIB,
        fence: WriteFence | None = None,
    ) -> None:
        self.last_written = 0
        """The number of the last written batch, with all before it.

        The exception are batches that a bug makes unwritable: they are recorded as a gap.
        """
        self.failures = 0
        """Consecutive failed attempts to write."""
        self.last_error: str | None = None
        """Why the last write failed; `None` once everything is written again."""
        self._store = store
        self._retention = retention
        self._clock = clock
        self._retry_seconds = retry_seconds
        self._prune_interval_seconds = prune_interval_seconds
        self._ledger_shares = LedgerShares()
        self._queue = WriteQueue()
        self._max_queued_bytes = max_queued_bytes
        self._lost: list[Gap] = []
        self._writing: list[QueuedBatch] = []
        self._isolates_rows = False
        self._rejected: list[RejectedRow] = []
        self._ids = IdCache()
        self._recorded_damage: str | None = None
        self._fence = fence
        # In a cluster, what is open belongs to other hubs or is claimed from them.
        self._restored = fence is not None
        self._prune: Iterator[None] | None = None
        self._prune_due = 0.0
        self._retention_time, self._expiry_now = RetentionTime(), inf
        self._closing = False
        self._started_at = time.monotonic()
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    @property
    def current_gap(self) -> Gap | None:
        """The time that is not written yet while writing fails, else `None`."""
        if not self.failures:
            return None
        return Gap(start=self.written_until, end=None, why=self.last_error or "unknown error")

    @property
    def written_until(self) -> float:
        """Up to when everything is written: the time of the oldest waiting batch, or now."""
        with self._wake:
            waiting = [*self._writing, *self._queue]
        return waiting[0].since if waiting else self._clock()

    @property
    def is_behind(self) -> bool:
        """Whether so much is queued that reports of the past should wait with their senders."""
        return self._queue.size_bytes > _BACKLOG_SHARE * self._max_queued_bytes

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to write has failed."""
        return self.failures > 0

    @property
    def is_full(self) -> bool:
        """Whether nothing more should be recorded."""
        return self._queue.size_bytes > self._max_queued_bytes

    def put(self, batch: WriteBatch) -> int:
        """Queue a batch and return its number; never blocks on the database."""
        now = self._clock()
        expiry_now = min(now, self._expiry_now)
        batch.series = [row for row in batch.series if not self._is_expired(row, expiry_now)]
        with self._wake:
            self._wake.notify()
            return self._queue.put(batch, now)

    def pending_batches(self) -> list[WriteBatch]:
        """The batches that are queued or being written, the oldest first."""
        with self._wake:
            return [queued.batch for queued in (*self._writing, *self._queue)]

    def is_written(self, number: int) -> bool:
        """Whether a batch is on disk."""
        return self.last_written >= number

    def take_rejected(self) -> list[RejectedRow]:
        """The rows that the database rejected, since the last call."""
        with self._wake:
            rejected, self._rejected = self._rejected, []
        return rejected

    def checkpoints(self) -> list[Checkpoint]:
        """Read the checkpoints of the previous hub; raise `StateError`."""
        with self._store.read_transaction() as connection:
            checkpoints = _read_checkpoints(connection)
        self._restored = True
        owned = None if self._fence is None else self._fence.owned()
        return [each for each in checkpoints if owned is None or each.node_id in owned]

    def checkpoints_of(self, node_ids: Collection[str]) -> list[Checkpoint]:
        """Read the checkpoints of these nodes, which another hub has written."""
        with self._store.read_transaction() as connection:
            return _read_checkpoints(connection, node_ids)

    def unfinished_rows(self, since: Mapping[str, float]) -> list[SeriesRow]:
        """Read the rows of which coarser rows, unfinished at a time per node, are to be made."""
        with self._store.read_transaction() as connection:
            return read_unfinished_rows(connection, since)

    def recorded_until(self) -> float:
        """Read the latest time of any stored interval, minus infinity without one."""
        with self._store.read_transaction() as connection:
            return read_recorded_until(connection)

    def close(self) -> None:
        """Write what is queued, then stop the thread."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(
                    lambda: self._closing or len(self._queue), self._seconds_until_prune()
                )
                # Under one lock, so that `pending_batches` always sees the taken ones.
                count = 1 if self._isolates_rows else _MAX_BATCHES_PER_TRANSACTION
                closing, taken = self._closing, self._queue.take(count)
                self._writing = taken
            if taken:
                self._attempt(self._write, taken)
            elif not closing:
                self._attempt(self._prune_step, taken)
            with self._wake:
                self._writing = []
            # A shutdown does not wait for a database that is not available.
            if closing and (self.failures or not taken):
                return

    def _seconds_until_prune(self) -> float:
        return max(0.0, self._prune_due - time.monotonic())

    def _attempt(self, work: Callable[[list[QueuedBatch]], None], taken: list[QueuedBatch]) -> None:
        try:
            work(taken)
        except StateError as error:
            self._retry_later(str(error), taken)
        except Exception as error:  # noqa: BLE001  # one bad row must not end the history
            self._handle_unwritable(error, taken)
        else:
            if self.failures:
                logger.warning("history is written again after %d failures", self.failures)
            self.failures = 0
            self.last_error = None
            if taken:
                with self._wake:
                    self._queue.done(taken)
                # Set last: a thread that waits for it must see the other attributes updated.
                self.last_written = taken[-1].number

    def _write(self, taken: list[QueuedBatch]) -> None:
        rejected: list[RejectedRow] = []
        if self._store.kind == "postgresql":
            needed = [partitions_of(queued.batch) for queued in taken]
            self._store.create_partitions(set().union(*needed))
        with self._store.write_transaction() as connection:
            for gap in self._gaps():
                write_gap(connection, gap)
            if not self._restored:
                # The previous hub's checkpoints could not be read at the start. Close what they
                # hold open before new ones replace them.
                closed = end_open_intervals(
                    _read_checkpoints(connection), partial(read_unfinished_rows, connection)
                )
                rejected += self._write_batch(connection, closed)
            batches = [queued.batch for queued in taken]
            if self._fence is not None:
                batches = self._fence.admit(connection, batches)
            for batch in batches:
                rejected += self._write_batch(connection, batch)
            if rejected:
                write_gap(connection, _rejection_gap(rejected, taken))
        self._restored = True
        self._recorded_damage = self._store.damage_message
        self._lost = []
        self._isolates_rows = False
        for row in rejected:
            logger.error("%s: a row cannot be written", row.name, exc_info=row.error)
        with self._wake:
            self._rejected = [*self._rejected, *rejected][-_MAX_REJECTED:]

    def _write_batch(self, connection: Connection, batch: WriteBatch) -> list[RejectedRow]:
        """Write a batch; return the rows that were left out, if rows are isolated."""
        if self._isolates_rows:
            return write_isolated(connection, self._ids, batch)
        write_batch(connection, self._ids, batch)
        return []

    def _gaps(self) -> Iterator[Gap]:
        yield from self._lost
        damage = self._store.damage_message
        if damage is not None and damage != self._recorded_damage:
            yield Gap(start=0.0, end=self._clock(), why=damage)

    def _is_expired(self, row: SeriesRow, now: float) -> bool:
        """Whether a row of the finest grain is too old to be stored, as in a backlog.

        Rows of the other grains are stored at any age: a restarted hub makes coarser ones of
        them.
        """
        keep_seconds = self._retention.series_seconds.get(row.grain_seconds)
        if row.grain_seconds != GRAINS[0] or keep_seconds is None:
            return False
        return row.start + MAX_ROW_SECONDS < now - keep_seconds

    def _prune_step(self, _: list[QueuedBatch]) -> None:
        """Delete some expired rows; batches that arrive meanwhile are written in between."""
        if self._fence is not None and not self._fence.is_leader():
            self._end_prune()
            return
        if self._prune is None:
            self._prune_due = 0.0
            with self._store.write_transaction() as connection:
                self._expiry_now = self._retention_time.update(
                    connection, self._clock(), time.monotonic()
                )
            self._prune = prune_steps(
                self._store, self._retention, self._expiry_now, self._ledger_shares
            )
            # By then every node has reported its GPUs. Other hubs have the keys of rows cached.
            is_late = time.monotonic() - self._started_at > _UNREFERENCED_AFTER_SECONDS
            if is_late and self._fence is None:
                self._prune = chain(self._prune, prune_unreferenced(self._store, self._ids))
        if next(self._prune, _FINISHED) is _FINISHED:
            self._end_prune()

    def _end_prune(self) -> None:
        self._prune = None
        self._prune_due = time.monotonic() + self._prune_interval_seconds

    def _retry_later(self, message: str, taken: list[QueuedBatch]) -> None:
        """Requeue the batches and wait before the next attempt: the database is not available."""
        self.failures += 1
        if self.failures == 1:
            logger.warning(
                "history cannot be written, retrying; live data is not affected: %s", message
            )
        self.last_error = message
        self._ids.invalidate()  # rows inserted by the failed transaction do not exist
        self._end_prune()
        wait_seconds = min(_MAX_RETRY_SECONDS, self._retry_seconds * self.failures)
        with self._wake:
            self._queue.requeue(taken)
            self._wake.wait_for(lambda: self._closing, wait_seconds)

    def _handle_unwritable(self, error: Exception, taken: list[QueuedBatch]) -> None:
        """Write the next batch row by row; drop one that cannot even be written so."""
        self._ids.invalidate()
        self._end_prune()
        if not taken:
            logger.error("old history cannot be deleted", exc_info=error)
            return
        with self._wake:
            if not self._isolates_rows:
                self._isolates_rows = True
                self._queue.requeue(taken)
                return
            self._queue.done(taken)
        self._lost += [Gap(start=one.since, end=one.at, why=f"a bug: {error!r}") for one in taken]
        logger.error("dropped a history batch that cannot be written", exc_info=error)


def _rejection_gap(rejected: list[RejectedRow], taken: list[QueuedBatch]) -> Gap:
    """The time in which rows are missing, and why; the hub's log has each of them."""
    first = rejected[0]
    why = f"a bug: {len(rejected)} rows cannot be written, first of {first.name}: {first.error!r}"
    return Gap(start=taken[0].since, end=taken[-1].at, why=why)


def _read_checkpoints(
    connection: Connection, node_ids: Collection[str] | None = None
) -> list[Checkpoint]:
    checkpoints, nodes = schema.checkpoints.c, schema.nodes.c
    rows = select(nodes.node_id, checkpoints.data).where(nodes.key == checkpoints.node)
    if node_ids is not None:
        rows = rows.where(nodes.node_id.in_(node_ids))
    return [Checkpoint(node_id=node_id, data=data) for node_id, data in connection.execute(rows)]
