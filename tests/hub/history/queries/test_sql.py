"""SQL queries: rows that overlap a range, series, and sums that add up."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.queries.totals import GroupBy
from fleet_smi.hub.history.recording.rows import Presence, WriteBatch
from fleet_smi.hub.history.series.layout import GPU_COLUMNS, figure_count
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.store import HistoryStore, open_history
from fleet_smi.hub.history.storage.writer import HistoryWriter
from fleet_smi.model.history import NO_USER, RibbonPoint, Sums, Usages
from tests.hub.history.batches import (
    DAY,
    HOUR,
    KEEP_ALL,
    UUIDS,
    gpu,
    holder,
    node,
    occupancy,
    pack_rows,
    period,
    place,
    series_row,
    sums,
    usage,
)

USAGE = ("usage_hours", "person_days", "gpu_days", "person_weeks", "gpu_weeks")
ALICE, BOB = holder("alice", 1), holder("bob", 2, group="audio", slurm_job="77", started_at=1.5)


def asking(store: HistoryStore, *batches: WriteBatch) -> HistoryQueries:
    """What can be asked once this is written."""
    writer = HistoryWriter(store, KEEP_ALL)
    for batch in batches:
        writer.put(batch)
    writer.close()
    assert writer.last_written == len(batches)
    return HistoryQueries(store)


def test_nodes_and_gpus_have_their_latest_description(store: HistoryStore) -> None:
    instance = gpu(2, 1, vendor="amd", parent="GPU-a", model=None, memory_total_bytes=None)
    asked = asking(store, WriteBatch(nodes=[node(1), node(2)], gpus=[gpu(1), instance]))
    assert asked.nodes() == [node(1), node(2)]
    assert asked.gpus() == [gpu(1), instance]
    assert asked.gpus(["id-2"]) == [instance]
    assert asked.gpus([]) == []


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (0.0, 99.0, [0, 1, 2]),
        (0.0, 10.0, []),
        (10.0, 20.0, [0]),
        (19.0, 21.0, [0, 1]),
        (20.0, 30.0, [1]),
        (25.0, 26.0, [1]),
        (30.0, 40.0, []),
        (35.0, 41.0, [2]),
        (50.0, 60.0, []),
    ],
)
def test_periods_are_those_that_overlap_with_the_range(
    store: HistoryStore, start: float, end: float, expected: list[int]
) -> None:
    kept = [
        period(10.0, 20.0),
        period(20.0, 30.0, ALICE, BOB),
        period(40.0, 50.0, ALICE, state="held", certain=False),
    ]
    told = WriteBatch(nodes=[node()], gpus=[gpu()], periods=[(place(), each) for each in kept])
    found = asking(store, told).periods(None, start, end)
    assert [each.gpu for each in found] == [gpu()] * bool(expected)
    assert [each for of_gpu in found for each in of_gpu.periods] == [kept[n] for n in expected]


def test_periods_can_be_limited_to_some_gpus(store: HistoryStore) -> None:
    places = [place(1, 0), place(1, 1), place(2, 0)]
    told = WriteBatch(
        nodes=[node(1), node(2)],
        gpus=[gpu(1, 0), gpu(1, 1), gpu(2, 0)],
        periods=[(each, period(1.0, 2.0)) for each in places],
    )
    asked = asking(store, told)
    found = asked.periods([place(1, 1), place(2, 0)], 0.0, 9.0)
    assert [each.gpu for each in found] == [gpu(1, 1), gpu(2, 0)]
    assert asked.periods([], 0.0, 9.0) == []


def test_looks_are_the_periods_as_far_as_a_strip_shows_them(store: HistoryStore) -> None:
    bob = holder("bob", 2, memory_bytes=1 << 30)
    shared = period(20.0, 40.0, ALICE, bob, busy_percent=62.5)
    rows = [(place(), period(10.0, 20.0)), (place(), shared), (place(2), period(0.0, 9.0))]
    nodes, gpus = [node(1), node(2)], [gpu(1), gpu(2)]
    asked = asking(store, WriteBatch(nodes=nodes, gpus=gpus, periods=rows))
    both = {place(), place(2)}
    assert asked.strip_intervals({place()}, 0.0, 99.0) == [
        (gpu(1), [(10.0, 20.0, ("free", NO_USER, 0), None), (20.0, 40.0, ("busy", "bob", 1), 62.5)])
    ]
    assert [each.uuid for each, _ in asked.strip_intervals(both, 0.0, 10.0)] == [gpu(2).uuid]
    assert asked.strip_intervals(both, 20.0, 20.0) == []


def test_the_last_period_before_a_time_is_found(store: HistoryStore) -> None:
    stretches = [
        Presence(node_id="id-1", start=5.0, end=9.0),
        Presence(node_id="id-1", start=12.0, end=20.0, certain=False),
    ]
    first, second = period(10.0, 20.0), period(20.0, 30.0, BOB)
    told = WriteBatch(
        nodes=[node(1), node(2)],
        gpus=[gpu(1, 0), gpu(2, 0)],
        periods=[(place(), first), (place(), second)],
        presence=stretches,
        series=[
            series_row(0, grain=900),
            series_row(0, grain=60, number=2),
            series_row(0, grain=900, number=2),
        ],
    )
    asked = asking(store, told)
    assert asked.periods_at(9.9) == []
    assert asked.periods_at(19.9) == [(gpu(), first)]
    assert asked.periods_at(1e6) == [(gpu(), second)]
    assert [asked.presence_at(at) for at in (4.0, 11.0, 99.0)] == [[], stretches[:1], stretches[1:]]
    found = asked.series_at(59.0)
    assert sorted((each.node_id, each.grain_seconds) for each in found) == [
        ("id-1", 900),
        ("id-2", 60),
    ]
    assert [each.node_id for each in asked.series_at(61.0)] == ["id-1", "id-2"]


def test_presence_is_found_by_range(store: HistoryStore) -> None:
    stretches = [Presence(node_id=f"id-{n}", start=10.0 * n, end=10.0 * n + 5) for n in (1, 2, 3)]
    assert asking(store, WriteBatch(presence=stretches)).presence(15.0, 30.0) == stretches[1:2]


def test_occupancies_can_be_limited_to_a_user_and_a_node(store: HistoryStore) -> None:
    of_alice = occupancy(10.0, 20.0, ALICE, sums=sums(10.0), peak_memory_bytes=1 << 36)
    of_bob = occupancy(5.0, 30.0, BOB, certain=False, mean_memory_bytes=7)
    told = WriteBatch(
        nodes=[node(1), node(2)],
        gpus=[gpu(1, 0), gpu(2, 0)],
        occupancies=[(place(1), of_alice), (place(1), of_bob), (place(2), of_alice)],
    )
    asked = asking(store, told)
    one, two = asked.occupancies(0.0, 99.0)
    assert (one.gpu, one.occupancies) == (gpu(1, 0), (of_bob, of_alice))
    assert (two.gpu, two.occupancies) == (gpu(2, 0), (of_alice,))
    (bobs,) = asked.occupancies(0.0, 99.0, user="bob")
    assert bobs.occupancies == (of_bob,)
    (there,) = asked.occupancies(0.0, 99.0, user="alice", node_id="id-2")
    assert (there.gpu, there.occupancies) == (gpu(2, 0), (of_alice,))
    assert asked.occupancies(20.0, 99.0, user="alice") == []
    assert asked.occupancies(0.0, 99.0, user="nobody else") == []


def test_a_series_has_a_value_or_nothing_for_every_grain(store: HistoryStore) -> None:
    rows = [series_row(DAY + 10 * n, busy=float(n)) for n in (0, 1, 3)]
    found = asking(store, WriteBatch(series=rows)).series("id-1", DAY + 5.0, DAY + 50.0)
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
    found = asking(store, WriteBatch(series=[alone, series_row(DAY + 10, busy=9.0)])).series(
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
    found = asking(store, WriteBatch(series=rows)).series("id-1", DAY, DAY + seconds, points)
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
    asked = asking(store, WriteBatch(series=fine + coarse))
    assert asked.series("id-1", DAY, DAY + 8000.0).grain_seconds == 900
    assert asked.series("id-1", DAY + 7200.0, DAY + 8000.0).grain_seconds == 10


def test_months_are_read_from_the_coarsest_grain(
    store: HistoryStore,
) -> None:
    quarters = [series_row(DAY + 900 * n, grain=900) for n in range(24)]
    asked = asking(store, WriteBatch(series=quarters))
    assert asked.series("id-1", DAY, DAY + 90 * 86400.0).grain_seconds == 9 * 900
    asked = asking(store, WriteBatch(series=[series_row(DAY, grain=10800)]))
    assert asked.series("id-1", DAY, DAY + 90 * 86400.0).grain_seconds == 10800


def test_a_row_of_several_grains_gives_a_point_for_each(store: HistoryStore) -> None:
    values = [(float(busy),) * figure_count(len(UUIDS)) for busy in range(1, 6)]
    some = replace(series_row(DAY + 20), data=pack_rows(*values))
    asked = asking(store, WriteBatch(series=[series_row(DAY), some]))
    found = asked.series("id-1", DAY + 30.0, DAY + 90.0)
    assert found.node["cpu_percent"].mean == [2.0, 3.0, 4.0, 5.0, None, None]
    (then,) = asked.series_at(DAY + 45.0)
    assert (then.start, then.data) == (DAY + 40, pack_rows(values[2]))
    assert asked.series_at(DAY + 70.0) == asked.series_at(DAY + 15.0) == []


def test_unfinished_rows_are_part_of_a_series(store: HistoryStore) -> None:
    now = DAY + 10800 + 1800
    undone = [
        series_row(DAY + 10800, grain=10800, busy=80.0),
        series_row(now - 60, grain=60, busy=99.0),
    ]
    asked = asking(store, WriteBatch(series=[series_row(DAY, grain=10800)]))
    found = asked.series("id-1", now - 90 * 86400.0, now, 720, undone)
    assert found.grain_seconds == 10800
    assert found.gpus["GPU-a"]["busy_percent"].mean[-2:] == [50.0, 80.0]


def test_a_node_without_figures_has_an_empty_series(store: HistoryStore) -> None:
    found = asking(store).series("nobody", DAY, DAY + 60.0, 10)
    assert found.gpus == {}
    assert set(found.node["cpu_percent"].mean) == {None}


def test_usage_is_summed_by_user_group_node_model_and_gpu(store: HistoryStore) -> None:
    told = WriteBatch(
        nodes=[node(1), node(2)],
        gpus=[gpu(1, 0), gpu(1, 1, model=None), gpu(2, 0)],
        usage=[
            usage(DAY, 100.0),
            usage(DAY + HOUR, 200.0, gpu_key=place(2, 0), state="held"),
            usage(DAY + HOUR, 50.0, "bob", gpu_key=place(1, 1), group="audio"),
            usage(DAY + HOUR, 3000.0, NO_USER, group="", state="free"),
        ],
    )
    asked = asking(store, told)

    def summed(by: GroupBy) -> dict[str, float]:
        rows = asked.usages(DAY + 5.0, DAY + HOUR + 5.0, by).rows
        return {each.name: each.sums.gpu_seconds for each in rows}

    assert summed("user") == {"alice": 300.0, "bob": 50.0}
    assert summed("group") == {"vision": 300.0, "audio": 50.0}
    assert summed("node") == {"gpu2": 200.0, "gpu1": 150.0}
    assert summed("model") == {"H100": 300.0, "unknown": 50.0}
    assert sum(summed("gpu").values()) == 350.0
    found = asked.usages(DAY + 5.0, DAY + HOUR + 5.0, "user", daily=True)
    assert (found.start, found.end) == (DAY, DAY + 2 * HOUR)
    assert found.total == sums(350.0)
    told_of = {state: seconds for state, seconds in found.by_state.items() if seconds}
    assert told_of == {"busy": 150.0, "held": 200.0, "free": 3000.0}
    assert [each.daily for each in found.rows] == [(300.0,), (50.0,)]


_hours = st.integers(0, 600) | st.integers(0, 80)
_told = st.lists(
    st.tuples(
        _hours,
        st.sampled_from([place(1, 0), place(1, 1), place(2, 0)]),
        st.sampled_from(["alice", "bob", NO_USER]),
        st.sampled_from(["busy", "held"]),
        st.integers(0, 3600),
    ),
    max_size=30,
)


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[HistoryStore]:
    store = open_history(tmp_path / "history.db")
    yield store
    store.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(told=_told, start=_hours, hours=_hours)
def test_weeks_days_and_hours_add_up_to_the_latest_value_of_each_hour(
    file_store: HistoryStore,
    told: list[tuple[int, tuple[str, str], str, str, int]],
    start: int,
    hours: int,
) -> None:
    forget_all(file_store)
    rows = [
        usage(DAY + hour * HOUR, float(seconds), user, gpu_key=where, state=state)
        for hour, where, user, state, seconds in told
    ]
    asked = asking(file_store, *(WriteBatch(usage=rows[n : n + 7]) for n in range(0, len(rows), 7)))
    last = {(each.hour, each.gpu_key, each.user, each.state): each for each in rows}
    by_user: dict[str, float] = defaultdict(float)
    by_day: dict[int, float] = defaultdict(float)
    first = DAY + start * HOUR
    for each in last.values():
        if first <= each.hour < first + hours * HOUR:
            by_user[each.user] += each.sums.gpu_seconds
            by_day[(each.hour - first // 86400 * 86400) // 86400] += (
                each.sums.gpu_seconds if each.user != NO_USER else 0.0
            )
    found = asked.usages(first, first + hours * HOUR, "user", daily=True)
    everybody = {user: seconds for user, seconds in by_user.items() if seconds and user != NO_USER}
    assert {each.name: each.sums.gpu_seconds for each in found.rows} == pytest.approx(everybody)
    assert sum(found.by_state.values()) == pytest.approx(sum(by_user.values()))
    by_gpu = asked.usages(first, first + hours * HOUR, "gpu", daily=True)
    assert by_gpu.total.gpu_seconds == pytest.approx(found.total.gpu_seconds)
    for rows_found in (found.rows, by_gpu.rows):
        days = [sum(day) for day in zip(*[each.daily for each in rows_found], strict=True)]
        assert days == pytest.approx([by_day[day] for day in range(len(days))])


def test_sums_do_not_depend_on_the_order_of_rows(store: HistoryStore) -> None:
    # Floating-point addition is not associative, and a server moves each row that it updates.
    users = ("alice", "bob", "carol")
    rows = [
        usage(
            DAY + hour * HOUR, 3600.0 / (1.1 + hour + 7 * number + at), user, gpu_key=place(1, at)
        )
        for hour in range(60)
        for number, user in enumerate(users)
        for at in (0, 1)
    ]
    asked = asking(store, WriteBatch(nodes=[node()], gpus=[gpu(), gpu(index=1)], usage=rows))

    def summed() -> list[Usages]:
        return [asked.usages(DAY, DAY + 55 * HOUR, by, daily=True) for by in get_args(GroupBy)]

    before = summed()
    with store.write_transaction() as connection:
        for table in map(schema.metadata.tables.__getitem__, USAGE):
            some = table.c.bucket // HOUR % 4 == 1
            connection.execute(table.update().where(some).values(bucket=table.c.bucket))
    assert summed() == before


def forget_all(store: HistoryStore) -> None:
    with store.write_transaction() as connection:
        for name in USAGE:
            connection.execute(schema.metadata.tables[name].delete())


def test_a_ribbon_has_the_mean_of_each_column_that_has_data(
    store: HistoryStore,
) -> None:
    moments = [
        RibbonPoint(at=DAY + 60.0 * n, nodes=2, nodes_reporting=n % 3, gpus={"free": float(n)})
        for n in (0, 1, 2, 6, 7)
    ]
    found = asking(store, WriteBatch(moments=moments)).ribbon(DAY, DAY + 480.0, 4)
    assert [each.at - DAY for each in found.moments] == [0.0, 120.0, 360.0]
    assert [each.gpus["free"] for each in found.moments] == [0.5, 2.0, 6.5]
    assert {each.gpus["busy"] for each in found.moments} == {0.0}
    assert found.gaps == ()
    assert asking(store).oldest_time() == DAY


def test_an_empty_history_gives_empty_results(store: HistoryStore) -> None:
    asked = HistoryQueries(store)
    assert asked.periods(None, 0.0, 1e12) == []
    assert asked.occupancies(0.0, 1e12) == []
    assert asked.usages(0.0, 1e9, "node").total == Sums()
    assert asked.ribbon(0.0, 1e9, 100).moments == ()
    assert asked.oldest_time() is None
    assert asked.gaps(0.0, 1e12) == []
