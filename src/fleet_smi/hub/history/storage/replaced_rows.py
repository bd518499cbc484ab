"""Replaced rows: remove what is stored of a time span that is recorded again.

The hub's clock was set back: without this, the intervals of that time would overlap, and their
sums would be counted twice.
"""

from math import inf

from sqlalchemy import Connection, delete, func, select, update

from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.schema import SUM_COLUMNS
from fleet_smi.hub.history.storage.usage_rollup import write_usage_hours

_INTERVALS = (schema.periods, schema.occupancies, schema.presence)


def remove_span(connection: Connection, start: float, end: float) -> None:
    """Remove what is stored of a time span; intervals that reach into it are cut.

    Series and moments of this time have the same keys when they are recorded again.
    """
    for table in _INTERVALS:
        columns = table.c
        cut = update(table).where(columns.start < start, columns.end > start)
        share = (start - columns.start) / (columns.end - columns.start)
        sums = {name: columns[name] * share for name in SUM_COLUMNS if name in columns}
        connection.execute(cut.values(end=start, certain=False, **sums))
        connection.execute(delete(table).where(columns.start >= start, columns.start < end))
    _remove_usage(connection, start, end)


def _remove_usage(connection: Connection, start: float, end: float) -> None:
    """Set the hours that begin within a span to zero, in their days and weeks as well."""
    hours = schema.usage_hours
    begun = select(hours).where(hours.c.bucket > start, hours.c.bucket <= end)
    rows = [dict(row._mapping) for row in connection.execute(begun)]
    zeros = dict.fromkeys(SUM_COLUMNS, 0.0)
    write_usage_hours(connection, [{**row, **zeros} for row in rows])


def read_recorded_until(connection: Connection) -> float:
    """The latest time of any stored interval; minus infinity without one."""
    latest = [connection.scalar(select(func.max(table.c.end))) for table in _INTERVALS]
    return max([at for at in latest if at is not None], default=-inf)
