"""Bulk statements: execute one statement for many rows directly by the database driver.

SQLAlchemy would process each value of each row, which takes several times as long.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, TextClause

RowValues = dict[str, Any]


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


@lru_cache(maxsize=128)
def _compile(statement: TextClause, dialect: Dialect) -> tuple[str, list[str] | None]:
    """The SQL for a driver, and the order of its parameters where they are positional."""
    compiled = statement.compile(dialect=dialect)
    return str(compiled), compiled.positiontup if compiled.positional else None
