"""SQL of the ribbon: the fleet per minute averaged into columns, and the gaps."""

from math import ceil

from sqlalchemy import BigInteger, Connection, cast, func, select

from fleet_smi.hub.history.storage import schema
from fleet_smi.model.fleet import STATES
from fleet_smi.model.history import Gap, Ribbon, RibbonPoint


def read_ribbon(connection: Connection, start: float, end: float, max_columns: int) -> Ribbon:
    """The ribbon in at most `max_columns` columns; those without a point are left out."""
    moments = _moments(connection, start, end, max(1, ceil((end - start) / max_columns)))
    gaps = read_gaps(connection, start, end)
    return Ribbon(start=start, end=end, moments=tuple(moments), gaps=tuple(gaps))


def read_gaps(connection: Connection, start: float, end: float) -> list[Gap]:
    """The gaps in which rows could not be written, the oldest first."""
    columns = schema.gaps.c
    query = select(schema.gaps).where(columns.end >= start, columns.start < end)
    rows = connection.execute(query.order_by(columns.start))
    return [Gap(start=since, end=until, why=why) for since, until, why in rows]


def _moments(connection: Connection, start: float, end: float, seconds: int) -> list[RibbonPoint]:
    """The means of columns that are `seconds` wide."""
    columns = schema.moments.c
    column = ((cast(columns.at, BigInteger) - int(start)) // seconds).label("column_number")
    means = [func.avg(columns[name]) for name in ("nodes", "nodes_reporting", *STATES)]
    query = select(column, *means).where(columns.at >= start, columns.at < end)
    return [
        RibbonPoint(
            at=start + number * seconds,
            nodes=round(nodes),
            nodes_reporting=round(reporting),
            gpus=dict(zip(STATES, states, strict=True)),
        )
        for number, nodes, reporting, *states in connection.execute(
            query.group_by("column_number").order_by("column_number")
        )
    ]
