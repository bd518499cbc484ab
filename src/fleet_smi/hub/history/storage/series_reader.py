"""Figures over time: the rows of one node, and the same as columns of numbers."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import ceil

import msgspec
import numpy as np
from sqlalchemy import Connection, func, select, text

from fleet_smi.hub.history.series.codec import (
    GPU_FIGURES,
    GRAINS,
    MAX,
    MAX_ROW_SECONDS,
    MEAN,
    MEMORY_COLUMNS,
    MIN,
    NODE_FIGURES,
    Float64Array,
    SeriesArrays,
    all_uuids,
    decode_rows,
    gpu_offset,
    resample,
    select_rows,
    slice_row_at,
)
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.hub.history.storage.schema import layouts, nodes, series
from fleet_smi.model.history import Figure, Series

_KIB = 1024
_COARSE = GRAINS[2]
"""Of a node that reports seldom there is nothing finer."""
_ROWS_A_POINT, _NEARLY = 4, 0.99
_OF_GPU = [name.replace("gibibytes", "mebibytes") for name in GPU_FIGURES]
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


def choose_grain(
    connection: Connection,
    start: float,
    end: float,
    max_points: int,
    live_rows: Sequence[SeriesRow] = (),
) -> int:
    """The finest grain without too many rows that goes back to `start`, or as far as any."""
    most_rows = max_points * _ROWS_A_POINT
    fitting = [grain for grain in GRAINS if (end - start) / grain <= most_rows]
    others = [grain for grain in reversed(GRAINS) if grain not in fitting]
    oldest = select(func.min(series.c.start))
    begins: dict[int, int] = {}
    for grain in (*fitting, *others):
        written = connection.scalar(oldest.where(series.c.grain == grain))
        undone = [row.start for row in live_rows if row.grain_seconds == grain]
        if written is not None or undone:
            begins[grain] = min([*undone, *([] if written is None else [written])])
    far_enough = max(start, min([at + grain for grain, at in begins.items()], default=0.0))
    return next((grain for grain, at in begins.items() if at <= far_enough), GRAINS[-1])


def read_rows(
    connection: Connection, node_id: str, start: float, end: float, grain: int
) -> list[SeriesRow]:
    """The rows of one node, the oldest first."""
    first = int(start // grain * grain) - max(0, MAX_ROW_SECONDS - grain)
    asked = {"first": first, "end": end, "grain": grain, "node_id": node_id}
    return [
        SeriesRow(grain_seconds=grain, node_id=node_id, start=at, uuids=_uuids(uuids), data=data)
        for at, uuids, data in connection.execute(_ROWS, asked)
    ]


def read_unfinished_rows(connection: Connection, since: Mapping[str, float]) -> list[SeriesRow]:
    """The rows of nodes that are in longer ones which were not done at a moment of each."""
    return [
        row
        for node_id, at in since.items()
        for grain, longer in pairwise(GRAINS[1:])
        for row in read_rows(connection, node_id, at // longer * longer, at, grain)
    ]


def merge_live_rows(
    rows: Iterable[SeriesRow], live_rows: Iterable[SeriesRow], start: float, end: float, grain: int
) -> list[SeriesRow]:
    """Rows of one grain, those that are not done yet among them: these know better."""
    told = {row.start: row for row in rows}
    for row in live_rows:
        if (
            row.grain_seconds == grain
            and start - MAX_ROW_SECONDS < row.start + grain
            and row.start < end
        ):
            told[row.start] = row
    return [told[at] for at in sorted(told)]


def read_fallback_rows(
    connection: Connection, node_id: str, start: float, end: float, grain: int
) -> list[SeriesRow]:
    """What holds where a grain has no rows."""
    return read_rows(connection, node_id, start, end, _COARSE) if grain < _COARSE else []


def read_rows_at(connection: Connection, at: float) -> list[SeriesRow]:
    """The finest row of each node that there is of a moment."""
    asked = (
        select(nodes.c.node_id, series.c.start, layouts.c.uuids, series.c.data)
        .join(nodes, nodes.c.key == series.c.node)
        .join(layouts, layouts.c.key == series.c.layout)
    )
    finest: dict[str, SeriesRow] = {}
    for grain in GRAINS:
        last = int(at // grain) * grain
        starts = range(last, last - max(MAX_ROW_SECONDS, grain), -grain)
        found = connection.execute(asked.where(series.c.grain == grain, series.c.start.in_(starts)))
        for node_id, start, uuids, data in found:
            row = SeriesRow(
                grain_seconds=grain, node_id=node_id, start=start, uuids=_uuids(uuids), data=data
            )
            if node_id not in finest and (then := slice_row_at(row, at)) is not None:
                finest[node_id] = then
    return list(finest.values())


def to_series(
    rows: Sequence[SeriesRow],
    start: float,
    end: float,
    grain: int,
    max_points: int,
    fallback_rows: Sequence[SeriesRow] = (),
) -> Series:
    """Rows of one grain as columns of at most so many points, each of as many grains.

    Where there is none, one of the `coarsest` holds, if all of its time is known.
    """
    step = max(1, ceil((end - start) / grain / max_points)) * grain
    first = int(start // step * step)
    times = np.arange(first, max(first + step, ceil(end)), step, dtype=float)
    wanted = all_uuids([*fallback_rows, *rows])
    told, whole = (
        resample(decode_rows(rows, wanted), step),
        _whole(decode_rows(fallback_rows, wanted)),
    )
    values, untold = _values_at(times, told), ~np.isin(times, told.starts)
    values[untold] = _values_at(times[untold] // _COARSE * _COARSE, whole)
    values[:, :, MEMORY_COLUMNS] *= _KIB
    columns = [_figure(values[:, :, place]) for place in range(values.shape[2])]
    return Series(
        start=float(first),
        grain_seconds=step,
        node=dict(zip(NODE_FIGURES, columns, strict=False)),
        gpus={
            uuid: dict(zip(_OF_GPU, columns[gpu_offset(place) :], strict=False))
            for place, uuid in enumerate(wanted)
        },
    )


def _whole(rows: SeriesArrays) -> SeriesArrays:
    """Those of which nearly all is known."""
    return select_rows(rows, rows.seconds > _NEARLY * _COARSE)


def _values_at(times: Float64Array, rows: SeriesArrays) -> Float64Array:
    """The values of the rows that begin at these times; those of others are unknown."""
    values = np.full((len(times), *rows.values.shape[1:]), np.nan)
    if len(rows.starts):
        places = rows.starts.searchsorted(times).clip(max=len(rows.starts) - 1)
        found = rows.starts[places] == times
        values[found] = rows.values[places[found]]
    return values


def _figure(values: Float64Array) -> Figure:
    minimum, mean, maximum = (
        [None if value != value else value for value in values[:, which].tolist()]
        for which in (MIN, MEAN, MAX)
    )
    return Figure(minimum=minimum, mean=mean, maximum=maximum)
