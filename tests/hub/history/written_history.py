"""A history that has been written to a database, for tests of its queries."""

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.hub.history.storage.writer import HistoryWriter
from tests.hub.history.batches import (
    KEEP_ALL,
    holder,
)

ALICE, BOB = holder("alice", 1), holder("bob", 2, group="audio", slurm_job="77", started_at=1.5)


def queries_over(store: HistoryStore, *batches: WriteBatch) -> HistoryQueries:
    """The queries over a history in which these batches have been written."""
    writer = HistoryWriter(store, KEEP_ALL)
    for batch in batches:
        writer.put(batch)
    writer.close()
    assert writer.last_written == len(batches)
    return HistoryQueries(store)
