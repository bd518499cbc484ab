"""Writes to a database that several hubs share: each hub writes only the nodes that it owns."""

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from msgspec.structs import replace
from sqlalchemy import Connection

from fleet_smi.hub.history.recording.rows import WriteBatch


class WriteFence(Protocol):
    """Decides, within a transaction, what a hub may write."""

    def lock_writes(self, connection: Connection) -> None:
        """Wait until no other hub writes, for the length of this transaction."""

    def admit(self, connection: Connection, batches: Iterable[WriteBatch]) -> list[WriteBatch]:
        """Return the batches without what belongs to the nodes of other hubs."""

    def owned(self) -> set[str]:
        """Return the ids of the nodes that this hub owns."""

    def is_leader(self) -> bool:
        """Return whether this hub does what is to be done once for all hubs."""


def node_ids_of(batch: WriteBatch) -> Iterator[str]:
    """The ids of the nodes that a batch has rows of, some of them repeatedly."""
    for rows in (batch.nodes, batch.gpus, batch.presence, batch.series, batch.checkpoints):
        yield from [row.node_id for row in rows]
    yield from [gpu_key[0] for gpu_key, _ in batch.periods]
    yield from [gpu_key[0] for gpu_key, _ in batch.occupancies]
    yield from [gpu_key[0] for gpu_key, _, _ in batch.removed_occupancies]
    yield from [row.gpu_key[0] for row in batch.usage]
    yield from batch.removed_nodes


def keep_nodes(batch: WriteBatch, owned: Collection[str]) -> WriteBatch:
    """Return the rows of a batch that belong to these nodes, or to none.

    A span that is to be replaced because the clock of one hub was set back stays: the rows of
    other hubs in it are right.
    """
    return replace(
        batch,
        replaced=[],
        nodes=[row for row in batch.nodes if row.node_id in owned],
        gpus=[row for row in batch.gpus if row.node_id in owned],
        periods=[row for row in batch.periods if row[0][0] in owned],
        removed_occupancies=[row for row in batch.removed_occupancies if row[0][0] in owned],
        occupancies=[row for row in batch.occupancies if row[0][0] in owned],
        presence=[row for row in batch.presence if row.node_id in owned],
        series=[row for row in batch.series if row.node_id in owned],
        usage=[row for row in batch.usage if row.gpu_key[0] in owned],
        checkpoints=[row for row in batch.checkpoints if row.node_id in owned],
        removed_nodes=[node_id for node_id in batch.removed_nodes if node_id in owned],
    )
