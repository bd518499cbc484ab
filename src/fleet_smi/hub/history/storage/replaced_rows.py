"""Replaced rows: remove what is stored of a time span that is recorded again.

The hub's clock was set back: without this, the intervals of that time would overlap, their sums
would be counted twice, and a node that is silent now would still have its figures from before.
"""

from math import inf

from sqlalchemy import Connection, delete, func, select, update

from fleet_smi.hub.history.series.codec import GRAINS, cut_row
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.schema import SUM_COLUMNS
from fleet_smi.hub.history.storage.series_reader import read_rows_around
from fleet_smi.hub.history.storage.strip_sample_rows import clear_samples
from fleet_smi.hub.history.storage.usage_rollup import write_usage_hours

_INTERVALS = (schema.periods, schema.occupancies, schema.presence)


def remove_span(connection: Connection, start: float, end: float) -> None:
    """Remove what is stored of a time span; intervals that reach into it are cut.

    With a span that has no length, series rows that reach beyond it are cut as well: they are
    short, so only those at the start of all spans can. Moments of this time have the same keys when
    they are recorded again.
    """
    for table in _INTERVALS:
        columns = table.c
        cut = update(table).where(columns.start < start, columns.end > start)
        share = (start - columns.start) / (columns.end - columns.start)
        sums = {name: columns[name] * share for name in SUM_COLUMNS if name in columns}
        connection.execute(cut.values(end=start, certain=False, **sums))
        connection.execute(delete(table).where(columns.start >= start, columns.start < end))
    if start == end:
        _cut_series(connection, start)
    for grain in GRAINS:
        _remove_series(connection, grain, start, end)
    clear_samples(connection, start, end)
    _remove_usage(connection, start, end)


def _remove_series(connection: Connection, grain: int, start: float, end: float) -> None:
    # Without those that begin at its start: they may have been recorded again by now.
    begun = [schema.series.c.grain == grain, schema.series.c.start > start]
    connection.execute(delete(schema.series).where(*begun, schema.series.c.start <= end))


def _cut_series(connection: Connection, at: float) -> None:
    """Remove what lies after a time from the rows that contain it."""
    columns = schema.series.c
    for grain in GRAINS:
        for node, row in read_rows_around(connection, grain, at):
            cut = cut_row(row, at)
            if cut is not row:
                key = columns.grain == grain, columns.start == row.start, columns.node == node
                connection.execute(update(schema.series).where(*key).values(data=cut.data))


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
