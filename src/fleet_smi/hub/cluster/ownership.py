"""Ownership of nodes in PostgreSQL: which hub may write a node's history and checkpoints.

A hub that hears a node claims it. Whatever it writes of the node is checked in the same
transaction: the row of the owner is locked until that commits, so that another hub's claim waits
for it, and reads what was written. A hub that lost a node writes nothing more of it.
"""

import threading
from collections.abc import Collection, Iterable

import msgspec
from sqlalchemy import Connection, bindparam, select, text

from fleet_smi.fleet.fleet import NodeCheckpoint
from fleet_smi.hub.cluster.leadership import Leadership
from fleet_smi.hub.cluster.state_database import SharedState, owners, quoted
from fleet_smi.hub.database import nodes, read_transaction, write_transaction
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.storage.shared_writes import keep_nodes, node_ids_of

_LOCK_WRITES = text("SELECT pg_advisory_xact_lock(hashtext('fleet-smi history'), hashtext(:name))")
# In one order, so that two hubs which claim the same nodes cannot block each other.
_CLAIM = text(
    "INSERT INTO owners (node_id, hub, epoch)"
    " SELECT node_id, :hub, 1 FROM unnest(CAST(:ids AS text[])) AS ids (node_id) ORDER BY node_id"
    " ON CONFLICT (node_id) DO UPDATE SET hub = excluded.hub, epoch = owners.epoch + 1"
    " RETURNING node_id, epoch"
)


class Ownership:
    """The nodes of one hub, `hub`; every method that reads or writes blocks."""

    def __init__(self, state: SharedState, hub: str, leadership: Leadership) -> None:
        self._engine = state.engine
        self._schema = state.schema
        self._hub = hub
        self._leadership = leadership
        # Shared, not exclusive: the history and the node store of this hub may write together.
        self._find_owned = text(
            f"SELECT node_id FROM {quoted(state.schema)}.owners"  # noqa: S608  # our own schema
            " WHERE hub = :hub AND node_id = ANY(:ids) ORDER BY node_id FOR SHARE"
        )
        self._lock = threading.Lock()
        self._lost: set[str] = set()

    def claim(self, node_ids: Collection[str]) -> dict[str, int]:
        """Become the owner of these nodes; return how many owners each has had."""
        with write_transaction(self._engine) as connection:
            claimed = connection.execute(_CLAIM, {"hub": self._hub, "ids": list(node_ids)})
            return {row[0]: row[1] for row in claimed}

    def checkpoints(self, node_ids: Collection[str]) -> dict[str, NodeCheckpoint | Exception]:
        """The checkpoints of those of these nodes that have one, or why it cannot be read."""
        with read_transaction(self._engine) as connection:
            return _read_checkpoints(connection, node_ids)

    def epochs(self) -> dict[str, int]:
        """The nodes that this hub owns, each with the number of owners that it has had."""
        with read_transaction(self._engine) as connection:
            rows = select(owners.c.node_id, owners.c.epoch).where(owners.c.hub == self._hub)
            return {row[0]: row[1] for row in connection.execute(rows)}

    def owned(self) -> set[str]:
        """The ids of the nodes that this hub owns."""
        return set(self.epochs())

    def is_leader(self) -> bool:
        """Whether this hub does what is to be done once for all hubs. Does not block."""
        return self._leadership.is_leader

    def owners(self) -> dict[str, str]:
        """The owner of every node that has one."""
        with read_transaction(self._engine) as connection:
            rows = connection.execute(select(owners.c.node_id, owners.c.hub))
            return {row[0]: row[1] for row in rows}

    def lock_owned(self, connection: Connection, node_ids: Collection[str]) -> set[str]:
        """Which of these nodes this hub owns; they stay so until the transaction ends."""
        if not node_ids:
            return set()
        values = {"hub": self._hub, "ids": list(node_ids)}
        owned = set(connection.scalars(self._find_owned, values))
        if len(owned) < len(node_ids):
            with self._lock:
                self._lost.update(set(node_ids) - owned)
        return owned

    def take_lost(self) -> set[str]:
        """The nodes that another hub was found to own, since the last call. Does not block."""
        if not self._lost:
            return set()
        with self._lock:
            lost, self._lost = self._lost, set()
        return lost

    def lock_writes(self, connection: Connection) -> None:
        """Wait until no other hub writes the history, for the length of this transaction.

        All hubs update the rows of people and of sums by day: in turns, they cannot deadlock.
        """
        connection.execute(_LOCK_WRITES, {"name": self._schema})

    def admit(self, connection: Connection, batches: Iterable[WriteBatch]) -> list[WriteBatch]:
        """Leave out of these batches what this hub may not write."""
        batches = list(batches)
        node_ids = {node_id for batch in batches for node_id in node_ids_of(batch)}
        owned = self.lock_owned(connection, node_ids)
        return [keep_nodes(batch, owned) for batch in batches]


def _read_checkpoints(
    connection: Connection, node_ids: Collection[str]
) -> dict[str, NodeCheckpoint | Exception]:
    rows = select(nodes.c.node_id, nodes.c.remembered)
    wanted = rows.where(nodes.c.node_id.in_(bindparam("ids", expanding=True)))
    found: dict[str, NodeCheckpoint | Exception] = {}
    for node_id, body in connection.execute(wanted, {"ids": list(node_ids)}):
        try:
            found[node_id] = msgspec.msgpack.decode(body, type=NodeCheckpoint)
        except Exception as error:  # noqa: BLE001  # whatever is wrong with one record
            found[node_id] = error
    return found
