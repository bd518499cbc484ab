"""The whole fleet over time, from what was noted every minute, and where nothing could be."""

from math import ceil

from sqlalchemy import BigInteger, Connection, cast, func, select

from fleet_smi.hub.history.storage import schema
from fleet_smi.model.fleet import STATES
from fleet_smi.model.history import Gap, Ribbon, RibbonPoint


def read_ribbon(connection: Connection, start: float, end: float, max_columns: int) -> Ribbon:
    """At most so many parts; those that nobody kept are left out."""
    moments = _moments(connection, start, end, max(1, ceil((end - start) / max_columns)))
    found = read_gaps(connection, start, end)
    return Ribbon(start=start, end=end, moments=tuple(moments), gaps=tuple(found))


def read_gaps(connection: Connection, start: float, end: float) -> list[Gap]:
    """Where something could not be written down, the oldest first."""
    kept = schema.gaps.c
    asked = select(schema.gaps).where(kept.end > start, kept.start < end).order_by(kept.start)
    return [Gap(start=since, end=until, why=why) for since, until, why in connection.execute(asked)]


def _moments(connection: Connection, start: float, end: float, seconds: int) -> list[RibbonPoint]:
    """The means of parts of so many seconds."""
    kept = schema.moments.c
    part = ((cast(kept.at, BigInteger) - int(start)) // seconds).label("part")
    means = [func.avg(kept[name]) for name in ("nodes", "nodes_reporting", *STATES)]
    asked = select(part, *means).where(kept.at >= start, kept.at < end)
    return [
        RibbonPoint(
            at=start + number * seconds,
            nodes=round(known),
            nodes_reporting=round(reporting),
            gpus=dict(zip(STATES, states, strict=True)),
        )
        for number, known, reporting, *states in connection.execute(
            asked.group_by("part").order_by("part")
        )
    ]
