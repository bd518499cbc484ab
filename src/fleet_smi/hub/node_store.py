"""What is known of each node, kept across restarts of the hub.

One thread writes, and nobody waits for it: what comes while it is busy, or while the disk
is full, takes the place of what was not yet written of the same node.
"""

import logging
import threading
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

import msgspec
from sqlalchemy import Engine, delete, select, text

from fleet_smi.errors import StateError
from fleet_smi.hub.database import nodes, read_transaction, write_transaction

logger = logging.getLogger(__name__)
_LONGEST_WAIT_SECONDS = 30.0
# Said in words: SQLite and PostgreSQL both know it, and SQLAlchemy has no one word for both.
_KEEP = text(
    "INSERT INTO nodes (node_id, name, at, remembered) VALUES (:node_id, :name, :at, :remembered)"
    " ON CONFLICT (node_id) DO UPDATE SET"
    " name = excluded.name, at = excluded.at, remembered = excluded.remembered"
)


class Storable(Protocol):
    """A struct that can be encoded, and says which node it is of."""

    @property
    def node_id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def at(self) -> float | None: ...


NodeT = TypeVar("NodeT", bound=Storable)


class NodeStore(Generic[NodeT]):
    """The nodes in the database; `kind` is what each is decoded to."""

    def __init__(
        self, engine: Engine, node_type: type[NodeT], *, retry_seconds: float = 1.0
    ) -> None:
        self.consecutive_failures = 0
        """How many times in a row the disk would not take what there was to keep."""
        self.durable_batch = 0
        """The number of the last batch that is on the disk, with all before it."""
        self._engine = engine
        self._kind = node_type
        self._retry_seconds = retry_seconds
        self.last_batch = 0
        """The number of the last batch that there was to keep."""
        self._waiting: dict[str, NodeT | None] = {}
        self._closing = False
        self._news = threading.Condition()
        self._writer = threading.Thread(target=self._write_all, name="memory", daemon=True)
        self._writer.start()

    def load(self) -> list[NodeT]:
        """All that was kept; a node that cannot be read is left out, and said so."""
        with read_transaction(self._engine) as connection:
            rows = connection.execute(select(nodes.c.name, nodes.c.remembered)).all()
        return [node for name, kept in rows if (node := self._decoded(name, kept)) is not None]

    def save(self, changed: Iterable[NodeT], removed: Iterable[str] = ()) -> int:
        """Let these be kept soon, and those forgotten; the number of this batch. Never waits."""
        with self._news:
            self._waiting.update((node.node_id, node) for node in changed)
            self._waiting.update((node_id, None) for node_id in removed)
            self.last_batch += 1
            self._news.notify()
            return self.last_batch

    def close(self) -> None:
        """Write what is left, and end the thread."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._writer.join()

    def _write_all(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._closing or self.durable_batch < self.last_batch)
                closing, number = self._closing, self.last_batch
                batch, self._waiting = self._waiting, {}
            if number > self.durable_batch:
                self._write_or_wait(batch, number)
            if closing:
                return

    def _write_or_wait(self, batch: dict[str, NodeT | None], number: int) -> None:
        try:
            self._write(batch)
        except StateError as error:
            self._failed(error)
            with self._news:
                self._waiting = batch | self._waiting
                wait_seconds = min(
                    _LONGEST_WAIT_SECONDS, self._retry_seconds * self.consecutive_failures
                )
                self._news.wait_for(lambda: self._closing, wait_seconds)
        else:
            if self.consecutive_failures:
                logger.warning("nodes are kept again, after %d failures", self.consecutive_failures)
            self.consecutive_failures, self.durable_batch = 0, number

    def _write(self, batch: dict[str, NodeT | None]) -> None:
        encode = msgspec.msgpack.Encoder().encode
        rows = [
            {"node_id": node_id, "name": node.name, "at": node.at, "remembered": encode(node)}
            for node_id, node in batch.items()
            if node is not None
        ]
        gone = [node_id for node_id, node in batch.items() if node is None]
        with write_transaction(self._engine) as connection:
            if rows:
                connection.execute(_KEEP, rows)
            for node_id in gone:
                connection.execute(delete(nodes).where(nodes.c.node_id == node_id))

    def _failed(self, error: StateError) -> None:
        self.consecutive_failures += 1
        if self.consecutive_failures == 1:
            logger.warning("nodes are not kept; what is shown goes on: %s", error)

    def _decoded(self, name: str, kept: bytes) -> NodeT | None:
        try:
            return msgspec.msgpack.decode(kept, type=self._kind)
        except (ValueError, RecursionError) as error:
            logger.warning("%s: what was kept of it cannot be read: %s", name, error)
            return None
