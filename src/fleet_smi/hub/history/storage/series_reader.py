"""Series reader: stored series rows of a node, and their conversion to columns of numbers."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from math import ceil

import msgspec
import numpy as np
from sqlalchemy import Connection, func, select, text

from fleet_smi.hub.history.series.codec import (
    GRAINS,
    MAX,
    MAX_ROW_SECONDS,
    MEAN,
    MIN,
    Float64Array,
    SeriesArrays,
    all_uuids,
    decode_rows,
    resample,
    select_rows,
    slice_row_at,
)
from fleet_smi.hub.history.series.layout import (
    GPU_COLUMNS,
    NODE_COLUMNS,
    decode_layout,
    gpu_offset,
)
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.hub.history.storage.schema import layouts, nodes, series
from fleet_smi.model.history import Figure, Series

_COARSE = GRAINS[2]
"""The finest grain of a node that reports rarely."""
_MAX_ROWS_PER_POINT, _NEARLY_ALL = 4, 0.99
# The rows of one node lie far apart, so each start is looked up by the primary key; `CROSS`
# keeps SQLite from choosing another order.
_SELECT_ROWS = text(
    "WITH RECURSIVE times(at) AS (SELECT CAST(:first AS BIGINT)"
    " UNION ALL SELECT at + :grain FROM times WHERE at + :grain < :end)"
    " SELECT series.start, layouts.uuids, layouts.figures, series.data"
    " FROM nodes CROSS JOIN times CROSS JOIN series CROSS JOIN layouts"
    " WHERE nodes.node_id = :node_id AND series.grain = :grain AND series.start = times.at"
    " AND series.node = nodes.key AND layouts.key = series.layout ORDER BY times.at"
)
_decode_uuids = lru_cache(maxsize=4096)(msgspec.json.Decoder(tuple[str, ...]).decode)


def choose_grain(
    connection: Connection,
    start: float,
    end: float,
    max_points: int,
    live_rows: Sequence[SeriesRow] = (),
) -> int:
    """The finest grain without too many rows that goes back to `start`, or as far as any."""
    max_rows = max_points * _MAX_ROWS_PER_POINT
    # Grains with few enough rows come first, the finest before others. Of those with too many the
    # coarsest comes first: it costs the least.
    fitting = [grain for grain in GRAINS if (end - start) / grain <= max_rows]
    others = [grain for grain in reversed(GRAINS) if grain not in fitting]
    oldest = select(func.min(series.c.start))
    first_starts: dict[int, int] = {}
    for grain in (*fitting, *others):
        stored = connection.scalar(oldest.where(series.c.grain == grain))
        live = [row.start for row in live_rows if row.grain_seconds == grain]
        if stored is not None or live:
            first_starts[grain] = min([*live, *([] if stored is None else [stored])])
    # The first row of a grain begins up to one grain before its first sample, so coarse grains seem
    # to go back further than they do: `at + grain` allows for that.
    far_enough = max(start, min([at + grain for grain, at in first_starts.items()], default=0.0))
    return next((grain for grain, at in first_starts.items() if at <= far_enough), GRAINS[-1])


def read_rows(
    connection: Connection, node_id: str, start: float, end: float, grain: int
) -> list[SeriesRow]:
    """The rows of one node, the oldest first."""
    # A row of several grains may begin before the range and reach into it.
    first = int(start // grain * grain) - max(0, MAX_ROW_SECONDS - grain)
    parameters = {"first": first, "end": end, "grain": grain, "node_id": node_id}
    return [
        _series_row(grain, node_id, *columns)
        for columns in connection.execute(_SELECT_ROWS, parameters)
    ]


def read_unfinished_rows(connection: Connection, since: Mapping[str, float]) -> list[SeriesRow]:
    """The rows that belong to coarser rows unfinished at a time, which is given per node id."""
    return [
        row
        for node_id, at in since.items()
        for grain, coarser in pairwise(GRAINS[1:])
        for row in read_rows(connection, node_id, at // coarser * coarser, at, grain)
    ]


def merge_live_rows(
    rows: Iterable[SeriesRow], live_rows: Iterable[SeriesRow], start: float, end: float, grain: int
) -> list[SeriesRow]:
    """Rows of one grain in time order; a live row replaces a stored one with the same start."""
    by_start = {row.start: row for row in rows}
    for row in live_rows:
        if (
            row.grain_seconds == grain
            and start - MAX_ROW_SECONDS < row.start + grain
            and row.start < end
        ):
            by_start[row.start] = row
    return [by_start[at] for at in sorted(by_start)]


def read_fallback_rows(
    connection: Connection, node_id: str, start: float, end: float, grain: int
) -> list[SeriesRow]:
    """Coarse rows for the times in which a finer grain has none."""
    return read_rows(connection, node_id, start, end, _COARSE) if grain < _COARSE else []


def read_rows_at(connection: Connection, at: float) -> list[SeriesRow]:
    """The finest row of each node that contains a time."""
    query = (
        select(nodes.c.node_id, series.c.start, layouts.c.uuids, layouts.c.figures, series.c.data)
        .join(nodes, nodes.c.key == series.c.node)
        .join(layouts, layouts.c.key == series.c.layout)
    )
    finest: dict[str, SeriesRow] = {}
    for grain in GRAINS:
        last = int(at // grain) * grain
        starts = range(last, last - max(MAX_ROW_SECONDS, grain), -grain)
        rows = connection.execute(query.where(series.c.grain == grain, series.c.start.in_(starts)))
        for node_id, *columns in rows:
            row = _series_row(grain, node_id, *columns)
            if node_id not in finest and (single := slice_row_at(row, at)) is not None:
                finest[node_id] = single
    return list(finest.values())


def read_rows_around(connection: Connection, grain: int, at: float) -> list[tuple[int, SeriesRow]]:
    """The rows of one grain, of all nodes, that may contain a time, with the keys of the nodes."""
    begun = series.c.start > at - max(MAX_ROW_SECONDS, grain), series.c.start <= at
    columns = nodes.c.node_id, series.c.start, layouts.c.uuids, layouts.c.figures, series.c.data
    query = (
        select(nodes.c.key, *columns)
        .join(series, nodes.c.key == series.c.node)
        .join(layouts, layouts.c.key == series.c.layout)
        .where(series.c.grain == grain, *begun)
    )
    return [(key, _series_row(grain, *row)) for key, *row in connection.execute(query).all()]


def to_series(
    rows: Sequence[SeriesRow],
    start: float,
    end: float,
    grain: int,
    max_points: int,
    fallback_rows: Sequence[SeriesRow] = (),
) -> Series:
    """Resample rows of one grain to columns of at most `max_points` points.

    Points without a row take the values of a fallback row, if nearly all of its time is known.
    """
    step = max(1, ceil((end - start) / grain / max_points)) * grain
    first = int(start // step * step)
    times = np.arange(first, max(first + step, ceil(end)), step, dtype=float)
    uuids = all_uuids([*fallback_rows, *rows])
    points = resample(decode_rows(rows, uuids), step)
    fallback = _nearly_complete(decode_rows(fallback_rows, uuids))
    values, missing = _values_at(times, points), ~np.isin(times, points.starts)
    values[missing] = _values_at(times[missing] // _COARSE * _COARSE, fallback)
    columns = [_figure(values[:, :, index]) for index in range(values.shape[2])]
    return Series(
        start=float(first),
        grain_seconds=step,
        node=dict(zip(NODE_COLUMNS, columns, strict=False)),
        gpus={
            uuid: dict(zip(GPU_COLUMNS, columns[gpu_offset(index) :], strict=False))
            for index, uuid in enumerate(uuids)
        },
    )


def _series_row(
    grain: int, node_id: str, start: int, uuids: str, figures: str, data: bytes
) -> SeriesRow:
    return SeriesRow(
        grain_seconds=grain,
        node_id=node_id,
        start=start,
        uuids=_decode_uuids(uuids),
        data=data,
        layout=decode_layout(figures),
    )


def _nearly_complete(rows: SeriesArrays) -> SeriesArrays:
    # The mean of a coarse row with a gap in it would be shown in the gap as well.
    return select_rows(rows, rows.seconds > _NEARLY_ALL * _COARSE)


def _values_at(times: Float64Array, rows: SeriesArrays) -> Float64Array:
    """The values of the rows that begin at these times; unknown where there is none."""
    values = np.full((len(times), *rows.values.shape[1:]), np.nan)
    if len(rows.starts):
        indices = rows.starts.searchsorted(times).clip(max=len(rows.starts) - 1)
        exact = rows.starts[indices] == times
        values[exact] = rows.values[indices[exact]]
    return values


def _figure(values: Float64Array) -> Figure:
    # Only NaN, which is unknown, differs from itself.
    minimum, mean, maximum = (
        [None if value != value else value for value in values[:, statistic].tolist()]
        for statistic in (MIN, MEAN, MAX)
    )
    return Figure(minimum=minimum, mean=mean, maximum=maximum)
