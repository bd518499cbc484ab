"""Row isolation: write a batch without the rows that the database rejects.

A batch that fails is written in halves, each in a savepoint of the same transaction, down to the
single row that is at fault.
"""

from typing import Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from fleet_smi.hub.history.recording.rows import RejectedRow, WriteBatch
from fleet_smi.hub.history.storage.ids import IdCache
from fleet_smi.hub.history.storage.inserts import write_batch


class _Row(NamedTuple):
    """A row of a batch, and the name of its list."""

    name: str
    value: Any


def write_isolated(connection: Connection, ids: IdCache, batch: WriteBatch) -> list[RejectedRow]:
    """Write all rows of a batch that can be written; return the others. The caller commits."""
    # In the order of the fields, which is that of writing: a part may depend on those before it.
    rows = [_Row(name, row) for name in batch.__struct_fields__ for row in getattr(batch, name)]
    return _write_rows(connection, ids, rows)


def _write_rows(connection: Connection, ids: IdCache, rows: list[_Row]) -> list[RejectedRow]:
    try:
        with connection.begin_nested():
            write_batch(connection, ids, _to_batch(rows))
    except Exception as error:
        if isinstance(error, DBAPIError) and not isinstance(error, DataError | IntegrityError):
            raise  # the fault of the database, not of a row: all of it is written later
        ids.invalidate()  # those that were inserted since the savepoint do not exist
        if len(rows) == 1:
            ids.forget_description(_to_batch(rows))
            return [RejectedRow(rows[0].name, _node_id(rows[0].value), error)]
        middle = len(rows) // 2
        first = _write_rows(connection, ids, rows[:middle])
        return first + _write_rows(connection, ids, rows[middle:])
    return []


def _to_batch(rows: list[_Row]) -> WriteBatch:
    batch = WriteBatch()
    for name, value in rows:
        getattr(batch, name).append(value)
    return batch


def _node_id(row: Any) -> str | None:
    """The node that a row belongs to; `None` for rows of the whole fleet."""
    if isinstance(row, tuple):  # its first item is the key of a GPU, or a time
        return str(row[0][0]) if isinstance(row[0], tuple) else None
    if hasattr(row, "gpu_key"):
        return str(row.gpu_key[0])
    return row if isinstance(row, str) else getattr(row, "node_id", None)
