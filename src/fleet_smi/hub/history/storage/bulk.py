"""Many rows written by one statement: SQLAlchemy would look at each value of each row."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Dialect, TextClause

RowValues = dict[str, Any]


def execute_bulk(connection: Connection, statement: TextClause, rows: Sequence[RowValues]) -> None:
    """Execute a statement once for each row, by the driver itself."""
    if rows:
        words, names = _compiled(statement, connection.dialect)
        given: Any = rows if names is None else [tuple(map(row.__getitem__, names)) for row in rows]
        connection.exec_driver_sql(words, given)


@lru_cache(maxsize=128)
def _compiled(statement: TextClause, dialect: Dialect) -> tuple[str, list[str] | None]:
    """What the driver is told, and the order of the values where it knows them by that."""
    compiled = statement.compile(dialect=dialect)
    return str(compiled), compiled.positiontup if compiled.positional else None
