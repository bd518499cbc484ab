"""Figures over time: the rows of one node, and the same as columns of numbers."""

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, isnan, nan

import msgspec
from sqlalchemy import Connection, func, select, text

from fleet_smi.hub.history.grains import (
    GPU_FIGURES,
    GRAINS,
    NODE_FIGURES,
    Row,
    first_of,
    joined,
    placed,
    unpack,
    width,
)
from fleet_smi.hub.history.rows import SeriesRow
from fleet_smi.hub.history.schema import layouts, nodes, series
from fleet_smi.model.history import Figure, Series

_KIB = 1024
_COARSE = GRAINS[2]
"""Of a node that reports seldom there is nothing finer."""
_ROWS_A_POINT = 4
# Each time is looked up, for the rows of one node lie far apart; `CROSS` keeps SQLite to that.
_ROWS = text(
    "WITH RECURSIVE times(at) AS (SELECT CAST(:first AS BIGINT)"
    " UNION ALL SELECT at + :grain FROM times WHERE at + :grain < :end)"
    " SELECT series.start, layouts.uuids, series.data"
    " FROM nodes CROSS JOIN times CROSS JOIN series CROSS JOIN layouts"
    " WHERE nodes.node_id = :node_id AND series.grain = :grain AND series.start = times.at"
    " AND series.node = nodes.key AND layouts.key = series.layout ORDER BY times.at"
)
_uuids = lru_cache(maxsize=4096)(msgspec.json.Decoder(tuple[str, ...]).decode)


def grain_for(connection: Connection, start: float, end: float, points: int) -> int:
    """The finest grain without too many rows that goes back to `start`, or as far as any."""
    most_rows = points * _ROWS_A_POINT
    fitting = [grain for grain in GRAINS if (end - start) / grain <= most_rows]
    others = [grain for grain in reversed(GRAINS) if grain not in fitting]
    oldest = select(func.min(series.c.start))
    found = {each: connection.scalar(oldest.where(series.c.grain == each)) for each in GRAINS}
    begins = {each: found[each] for each in (*fitting, *others) if found[each] is not None}
    far_enough = max(start, min([at + grain for grain, at in begins.items()], default=0.0))
    return next((grain for grain, at in begins.items() if at <= far_enough), GRAINS[-1])


def rows_between(
    connection: Connection, node_id: str, start: float, end: float, grain: int
) -> list[SeriesRow]:
    """The rows of one node, the oldest first."""
    first = int(start // grain * grain)
    asked = {"first": first, "end": end, "grain": grain, "node_id": node_id}
    return [
        SeriesRow(grain_seconds=grain, node_id=node_id, start=at, uuids=_uuids(uuids), data=data)
        for at, uuids, data in connection.execute(_ROWS, asked)
    ]


def rows_until_now(
    connection: Connection, node_id: str, start: float, end: float, grain: int
) -> list[SeriesRow]:
    """The same, and at the end finer ones: what they are to be joined to is not done yet."""
    rows = rows_between(connection, node_id, start, end, grain)
    if grain > GRAINS[0]:
        done = rows[-1].start + grain if rows else start
        finer = GRAINS[GRAINS.index(grain) - 1]
        rows += rows_between(connection, node_id, max(done, end - 2 * grain), end, finer)
    return rows


def stand_ins(
    connection: Connection, node_id: str, start: float, end: float, grain: int
) -> list[SeriesRow]:
    """What holds where a grain has no rows."""
    return rows_between(connection, node_id, start, end, _COARSE) if grain < _COARSE else []


def rows_at(connection: Connection, at: float) -> list[SeriesRow]:
    """The finest row of each node that there is of a moment."""
    asked = (
        select(nodes.c.node_id, layouts.c.uuids, series.c.data)
        .join(nodes, nodes.c.key == series.c.node)
        .join(layouts, layouts.c.key == series.c.layout)
    )
    finest: dict[str, SeriesRow] = {}
    for grain in GRAINS:
        start = int(at // grain * grain)
        rows = asked.where(series.c.grain == grain, series.c.start == start)
        for node_id, uuids, data in connection.execute(rows):
            row = SeriesRow(
                grain_seconds=grain, node_id=node_id, start=start, uuids=_uuids(uuids), data=data
            )
            finest.setdefault(node_id, row)
    return list(finest.values())


def as_series(
    rows: Sequence[SeriesRow],
    start: float,
    end: float,
    grain: int,
    points: int,
    coarsest: Sequence[SeriesRow] = (),
) -> Series:
    """Rows of one grain as columns of at most so many points, each of as many grains.

    Where there is none, one of the `coarsest` holds, if all of its time is known.
    """
    step = max(1, ceil((end - start) / grain / points)) * grain
    first = int(start // step * step)
    told = [*coarsest, *rows]
    told_of = dict.fromkeys(row.uuids for row in reversed(told))
    wanted = tuple(dict.fromkeys(uuid for uuids in told_of for uuid in uuids))
    unknown = (nan,) * width(len(wanted))
    known = {at: joined(some) for at, some in _by_step(rows, wanted, step).items()}
    nothing = Row(0.0, unknown, unknown, unknown)
    whole = {
        at: row for at, (row,) in _by_step(coarsest, wanted, _COARSE).items() if _is_whole(row)
    }
    times = range(first, max(first + step, ceil(end)), step)
    columns = _columns(
        [known.get(at) or whole.get(at // _COARSE * _COARSE, nothing) for at in times]
    )
    return Series(
        start=float(first),
        grain_seconds=step,
        node=dict(zip(NODE_FIGURES, columns, strict=False)),
        gpus={uuid: _of_gpu(columns[first_of(place) :]) for place, uuid in enumerate(wanted)},
    )


def _is_whole(row: Row) -> bool:
    return row.seconds > 0.99 * _COARSE


def _by_step(rows: Sequence[SeriesRow], wanted: tuple[str, ...], step: int) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for row in rows:
        values = placed(unpack(row.data), row.uuids, wanted)
        found.setdefault(row.start // step * step, []).append(values)
    return found


def _columns(rows: Sequence[Row]) -> list[Figure]:
    least, mean, most = (
        [_known(column) for column in zip(*values, strict=True)]
        for values in (
            [row.least for row in rows],
            [row.mean for row in rows],
            [row.most for row in rows],
        )
    )
    return [
        Figure(minimum=minimum, mean=middle, maximum=maximum)
        for minimum, middle, maximum in zip(least, mean, most, strict=True)
    ]


def _known(values: Sequence[float]) -> list[float | None]:
    return [None if isnan(value) else value for value in values]


def _of_gpu(columns: Sequence[Figure]) -> dict[str, Figure]:
    found = dict(zip(GPU_FIGURES, columns, strict=False))
    memory = found.pop("memory_used_gibibytes")
    return found | {"memory_used_mebibytes": _in_mebibytes(memory)}


def _in_mebibytes(memory: Figure) -> Figure:
    def scaled(values: list[float | None]) -> list[float | None]:
        return [None if value is None else value * _KIB for value in values]

    return Figure(
        minimum=scaled(memory.minimum), mean=scaled(memory.mean), maximum=scaled(memory.maximum)
    )
