"""Node store: the checkpoint of each node on disk, written by a thread with retries.

Nothing waits for the thread: what is saved while it is busy, or while the disk is full,
replaces the queued checkpoint of the same node.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from typing import Generic, Protocol, TypeVar

import msgspec
from sqlalchemy import Connection, Engine, delete, select, text

from fleet_smi.errors import StateError
from fleet_smi.hub.database import nodes, read_transaction, write_transaction

logger = logging.getLogger(__name__)
_MAX_RETRY_SECONDS = 30.0
# As text: SQLite and PostgreSQL share this syntax, and SQLAlchemy has no upsert for both.
_UPSERT = text(
    "INSERT INTO nodes (node_id, name, at, remembered) VALUES (:node_id, :name, :at, :remembered)"
    " ON CONFLICT (node_id) DO UPDATE SET"
    " name = excluded.name, at = excluded.at, remembered = excluded.remembered"
)


class Storable(Protocol):
    """A struct that msgspec can encode; `at` is when its last snapshot was taken."""

    @property
    def node_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def at(self) -> float | None: ...


NodeT = TypeVar("NodeT", bound=Storable)
UnreadableCallback = Callable[[str, str, Exception], None]
"""Is called with the id and the name of a node that cannot be decoded, and the error."""


def ignore_unreadable(_node_id: str, _name: str, _error: Exception) -> None:
    """Do nothing about a node that cannot be decoded: it is logged."""


class NodeStore(Generic[NodeT]):
    """The nodes in the database, each decoded as `node_type`."""

    def __init__(
        self, engine: Engine, node_type: type[NodeT], *, retry_seconds: float = 1.0
    ) -> None:
        self.consecutive_failures = 0
        """Failed writes in a row."""
        self.failures_total = 0
        """Failed writes since the start."""
        self.last_error: str | None = None
        """Why the last write failed; `None` once it succeeds."""
        self.durable_batch = 0
        """The number of the last batch that is on disk, with all before it."""
        self._engine = engine
        self._node_type = node_type
        self._retry_seconds = retry_seconds
        self.last_batch = 0
        """The number of the last batch that was passed to `save`."""
        self._queue: dict[str, NodeT | None] = {}  # `None` deletes the node
        self._failures: dict[str, Exception] = {}
        self._closing = False
        self._changed = threading.Condition()
        self._writer = threading.Thread(target=self._write_all, name="node store", daemon=True)
        self._writer.start()

    def load(self, on_unreadable: UnreadableCallback = ignore_unreadable) -> list[NodeT]:
        """Every saved node; one that cannot be decoded is logged and left out."""
        columns = select(nodes.c.node_id, nodes.c.name, nodes.c.remembered)
        with read_transaction(self._engine) as connection:
            rows = connection.execute(columns).all()
        loaded = []
        for node_id, name, body in rows:
            try:
                loaded.append(msgspec.msgpack.decode(body, type=self._node_type))
            except Exception as error:  # noqa: BLE001  # whatever is wrong with one record
                logger.warning("%s: its saved state cannot be read: %s", name, error)
                on_unreadable(node_id, name, error)
        return loaded

    def take_failures(self) -> dict[str, Exception]:
        """The nodes that could not be written, since the last call, and why."""
        with self._changed:
            failures, self._failures = self._failures, {}
        return failures

    def save(self, changed: Iterable[NodeT], removed: Iterable[str] = ()) -> int:
        """Queue nodes to be written and deleted; return the number of this batch. Never blocks."""
        with self._changed:
            self._queue.update((node.node_id, node) for node in changed)
            self._queue.update((node_id, None) for node_id in removed)
            self.last_batch += 1
            self._changed.notify()
            return self.last_batch

    def close(self) -> None:
        """Write what is queued, and end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._writer.join()

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._closing or self.durable_batch < self.last_batch
                )
                # Taken together, under the lock: batches up to `number` are on disk or in here.
                closing, number = self._closing, self.last_batch
                batch, self._queue = self._queue, {}
            if number > self.durable_batch:
                self._write_or_requeue(batch, number)
            if closing:
                return

    def _write_or_requeue(self, batch: dict[str, NodeT | None], number: int) -> None:
        try:
            self._write_isolated(batch)
        except StateError as error:
            self._record_failure(error)
            with self._changed:
                # What was queued meanwhile is newer and wins.
                self._queue = batch | self._queue
                wait_seconds = min(
                    _MAX_RETRY_SECONDS, self._retry_seconds * self.consecutive_failures
                )
                # `close` ends the wait for one last attempt, and never waits for a full disk.
                self._changed.wait_for(lambda: self._closing, wait_seconds)
        else:
            if self.consecutive_failures:
                logger.warning(
                    "nodes are saved again, after %d failures", self.consecutive_failures
                )
            self.consecutive_failures, self.durable_batch = 0, number
            self.last_error = None

    def _write_isolated(self, batch: dict[str, NodeT | None]) -> None:
        """Write a batch; a node that cannot be written is left out, and listed as a failure."""
        try:
            self._write(batch)
        except StateError:  # of the disk or the database: all are to be retried
            raise
        except Exception as error:  # noqa: BLE001  # one node must not end the thread
            if len(batch) > 1:
                for node_id, node in batch.items():
                    self._write_isolated({node_id: node})
            else:
                with self._changed:
                    self._failures.update(dict.fromkeys(batch, error))

    def _write(self, batch: dict[str, NodeT | None]) -> None:
        # Encoded here, in the thread, and not in `save`, which the event loop calls.
        encode = msgspec.msgpack.Encoder().encode
        with write_transaction(self._engine) as connection:
            owned = self._owned(connection, batch)
            rows = [
                {"node_id": node_id, "name": node.name, "at": node.at, "remembered": encode(node)}
                for node_id, node in batch.items()
                if node is not None and node_id in owned
            ]
            removed = [node_id for node_id, node in batch.items() if node is None]
            removed = [node_id for node_id in removed if node_id in owned]
            if rows:
                connection.execute(_UPSERT, rows)
            for node_id in removed:
                connection.execute(delete(nodes).where(nodes.c.node_id == node_id))

    def _owned(self, connection: Connection, node_ids: Collection[str]) -> Collection[str]:
        """The nodes that may be written: all, where no other hub shares the database."""
        return node_ids

    def _record_failure(self, error: StateError) -> None:
        self.consecutive_failures += 1
        self.failures_total += 1
        self.last_error = str(error)
        if self.consecutive_failures == 1:
            logger.warning("nodes cannot be saved, the hub continues without: %s", error)
