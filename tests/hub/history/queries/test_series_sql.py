"""SQL of series: grains by range and points, rows of several grains, unfinished rows."""

import pytest
from msgspec.structs import replace

from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.layout import GPU_COLUMNS, figure_count
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.hub.history.storage.store import HistoryStore
from tests.hub.history.batches import (
    DAY,
    UUIDS,
    pack_rows,
    series_row,
)
from tests.hub.history.written_history import queries_over


def test_a_series_has_a_value_or_nothing_for_every_grain(store: HistoryStore) -> None:
    rows = [series_row(DAY + 10 * n, busy=float(n)) for n in (0, 1, 3)]
    found = queries_over(store, WriteBatch(series=rows)).series("id-1", DAY + 5.0, DAY + 50.0)
    assert (found.start, found.grain_seconds) == (DAY, 10)
    assert found.node["cpu_percent"].mean == [0.0, 1.0, None, 3.0, None]
    assert set(found.gpus) == set(UUIDS)
    assert found.gpus["GPU-a"]["busy_percent"].maximum == [0.0, 1.0, None, 3.0, None]
    assert found.gpus["GPU-b"]["memory_used_bytes"].minimum == [0, 1, None, 3, None]
    assert tuple(found.gpus["GPU-a"]) == GPU_COLUMNS


def test_a_gpu_that_came_later_is_unknown_before(store: HistoryStore) -> None:
    alone = SeriesRow(
        grain_seconds=10,
        node_id="id-1",
        start=DAY,
        uuids=("GPU-b",),
        data=pack_rows((7.0,) * figure_count(1)),
    )
    found = queries_over(store, WriteBatch(series=[alone, series_row(DAY + 10, busy=9.0)])).series(
        "id-1", DAY, DAY + 20.0
    )
    assert found.gpus["GPU-a"]["power_watts"].mean == [None, 9.0]
    assert found.gpus["GPU-b"]["power_watts"].mean == [7.0, 9.0]


@pytest.mark.parametrize(
    ("seconds", "points", "expected"),
    [(600, 1000, 10), (3600, 100, 40), (3600, 80, 60), (86400, 100, 900), (86400, 10, 9000)],
)
def test_a_series_has_at_most_the_requested_number_of_points(
    store: HistoryStore, seconds: int, points: int, expected: int
) -> None:
    rows = [series_row(DAY, grain=grain) for grain in (10, 60, 900)] + [
        series_row(DAY + 900, grain=900, busy=100)
    ]
    found = queries_over(store, WriteBatch(series=rows)).series("id-1", DAY, DAY + seconds, points)
    assert found.grain_seconds == expected
    assert len(found.node["cpu_percent"].mean) <= points
    if expected > 900:
        figure = found.node["cpu_percent"]
        assert (figure.minimum[0], figure.mean[0], figure.maximum[0]) == (50.0, 75.0, 100.0)


def test_a_grain_that_does_not_reach_back_gives_way_to_a_coarser_one(
    store: HistoryStore,
) -> None:
    fine = [series_row(DAY + 7200 + 10 * n) for n in range(6)]
    coarse = [series_row(DAY + 900 * n, grain=900) for n in range(9)]
    queries = queries_over(store, WriteBatch(series=fine + coarse))
    assert queries.series("id-1", DAY, DAY + 8000.0).grain_seconds == 900
    assert queries.series("id-1", DAY + 7200.0, DAY + 8000.0).grain_seconds == 10


def test_months_are_read_from_the_coarsest_grain(
    store: HistoryStore,
) -> None:
    quarters = [series_row(DAY + 900 * n, grain=900) for n in range(24)]
    queries = queries_over(store, WriteBatch(series=quarters))
    assert queries.series("id-1", DAY, DAY + 90 * 86400.0).grain_seconds == 9 * 900
    queries = queries_over(store, WriteBatch(series=[series_row(DAY, grain=10800)]))
    assert queries.series("id-1", DAY, DAY + 90 * 86400.0).grain_seconds == 10800


def test_a_row_of_several_grains_gives_a_point_for_each(store: HistoryStore) -> None:
    values = [(float(busy),) * figure_count(len(UUIDS)) for busy in range(1, 6)]
    some = replace(series_row(DAY + 20), data=pack_rows(*values))
    queries = queries_over(store, WriteBatch(series=[series_row(DAY), some]))
    found = queries.series("id-1", DAY + 30.0, DAY + 90.0)
    assert found.node["cpu_percent"].mean == [2.0, 3.0, 4.0, 5.0, None, None]
    (then,) = queries.series_at(DAY + 45.0)
    assert (then.start, then.data) == (DAY + 40, pack_rows(values[2]))
    assert queries.series_at(DAY + 70.0) == queries.series_at(DAY + 15.0) == []


def test_unfinished_rows_are_part_of_a_series(store: HistoryStore) -> None:
    now = DAY + 10800 + 1800
    undone = [
        series_row(DAY + 10800, grain=10800, busy=80.0),
        series_row(now - 60, grain=60, busy=99.0),
    ]
    queries = queries_over(store, WriteBatch(series=[series_row(DAY, grain=10800)]))
    found = queries.series("id-1", now - 90 * 86400.0, now, 720, undone)
    assert found.grain_seconds == 10800
    assert found.gpus["GPU-a"]["busy_percent"].mean[-2:] == [50.0, 80.0]


def test_a_node_without_figures_has_an_empty_series(store: HistoryStore) -> None:
    found = queries_over(store).series("nobody", DAY, DAY + 60.0, 10)
    assert found.gpus == {}
    assert set(found.node["cpu_percent"].mean) == {None}
