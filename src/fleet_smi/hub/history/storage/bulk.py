"""Bulk statements: execute one statement for many rows directly by the database driver.

SQLAlchemy would process each value of each row, which takes several times as long.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Dialect,
    Float,
    Select,
    TextClause,
    case,
    func,
    select,
)

RowValues = dict[str, Any]
_JSON_VERSION = (3, 38)  # from which on its JSON functions are always built in
_decode_rows = msgspec.json.Decoder(list[list[Any]]).decode


def execute_bulk(connection: Connection, statement: TextClause, rows: Sequence[RowValues]) -> None:
    """Execute a statement once for each row; values are passed on without type conversion."""
    if rows:
        sql, names = _compile(statement, connection.dialect)
        values: Any = (
            rows if names is None else [tuple(map(row.__getitem__, names)) for row in rows]
        )
        connection.exec_driver_sql(sql, values)


def select_each(
    connection: Connection, statement: TextClause, rows: Iterable[RowValues]
) -> Iterator[tuple[Any, ...]]:
    """Execute a query once for each row of parameters, and yield what it finds."""
    sql, names = _compile(statement, connection.dialect)
    for row in rows:
        values: Any = row if names is None else tuple(map(row.__getitem__, names))
        yield from map(tuple, connection.exec_driver_sql(sql, values))


def fetch_all(connection: Connection, query: Select[Any]) -> list[list[Any]]:
    """Return all rows of a query whose columns are numbers and texts.

    From SQLite as one JSON text: its driver releases the interpreter lock for every single row,
    and waits up to 5 ms to get it back from a busy event loop. Thousands of rows take seconds.
    """
    if connection.dialect.name != "sqlite" or sqlite3.sqlite_version_info < _JSON_VERSION:
        return [list(row) for row in connection.execute(query)]
    rows = query.subquery()
    row = func.json_array(*map(_exact, rows.c))
    array = select(func.json_group_array(row)).select_from(rows)
    return _decode_rows(connection.scalar(array) or "[]")


def _exact(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """With all digits: SQLite writes 15 into JSON, and a time would not equal its live one."""
    if not isinstance(column.type, Float):
        return column
    return case((column.is_(None), None), else_=func.json(func.printf("%!.17g", column)))


@lru_cache(maxsize=128)
def _compile(statement: TextClause, dialect: Dialect) -> tuple[str, list[str] | None]:
    """The SQL for a driver, and the order of its parameters where they are positional."""
    compiled = statement.compile(dialect=dialect)
    return str(compiled), compiled.positiontup if compiled.positional else None
