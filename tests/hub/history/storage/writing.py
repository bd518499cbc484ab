"""A history writer with a clock of its own, and what it wrote."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.hub.history.storage.writer import HistoryWriter
from tests.hub.history.batches import DAY, KEEP_ALL
from tests.machines import wait_until

WITH_NUMBERS = ("periods", "occupancies", "presence", "series", "moments")


class Clock:
    """Goes on by a second at each look."""

    def __init__(self) -> None:
        self.now = float(DAY)

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@contextmanager
def writing(store: HistoryStore, **options: Any) -> Iterator[HistoryWriter]:
    """A writer that retries soon, until the end of the block."""
    quick: dict[str, Any] = {"retry_seconds": 0.01, "clock": Clock()} | options
    writer = HistoryWriter(store, KEEP_ALL, **quick)
    try:
        yield writer
    finally:
        writer.close()


def all_written(writer: HistoryWriter) -> None:
    """Wait until no batch is queued."""
    wait_until(lambda: not writer.pending_batches(), 60.0)


def rows_in(store: HistoryStore, *names: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of these tables, or of all."""
    with store.read_transaction() as connection:
        tables = (schema.metadata.tables[name] for name in names or schema.metadata.tables)
        return {
            table.name: sorted(map(tuple, connection.execute(table.select()))) for table in tables
        }
