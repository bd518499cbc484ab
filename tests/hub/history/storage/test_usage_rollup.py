"""Hourly usage and its sums: a GPU with very many users is not read once for each of them."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, event

from fleet_smi.hub.history.storage.schema import SUM_COLUMNS
from fleet_smi.hub.history.storage.store import HistoryStore
from fleet_smi.hub.history.storage.usage_rollup import write_usage_hours
from tests.hub.history.batches import DAY
from tests.hub.history.storage.writing import rows_in

PEOPLE = 3000


@contextmanager
def counted_statements(connection: Connection) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(_: object, __: object, statement: str, *___: object) -> None:
        if statement.lstrip().upper().startswith("SELECT") and "usage_hours" in statement:
            seen.append(statement)

    event.listen(connection, "before_cursor_execute", note)
    yield seen
    event.remove(connection, "before_cursor_execute", note)


def test_each_gpu_is_read_once_however_many_users_it_has(store: HistoryStore) -> None:
    sums = dict.fromkeys(SUM_COLUMNS, 1.0)
    key = {"bucket": DAY, "gpu": 1, "state": "busy"}
    rows = [{**key, "person": person, **sums} for person in range(2, PEOPLE)]
    for _ in range(2):
        with store.write_transaction() as connection, counted_statements(connection) as seen:
            write_usage_hours(connection, rows)
        assert len(seen) == 1
    found = rows_in(store, "usage_hours", "gpu_days")
    assert len(found["usage_hours"]) == len(rows)
    assert [row[2] for row in found["gpu_days"]] == [float(len(rows))]
