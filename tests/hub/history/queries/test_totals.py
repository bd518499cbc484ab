"""Usage totals: hours, days and weeks add up, by any group and in any order."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from fleet_smi.hub.history.queries.totals import GroupBy
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.retention import prune_steps
from fleet_smi.hub.history.storage.store import HistoryStore, open_history
from fleet_smi.model.history import NO_USER, Usages
from tests.hub.history.batches import (
    DAY,
    HOUR,
    KEEP_ALL,
    gpu,
    node,
    place,
    sums,
    usage,
)
from tests.hub.history.written_history import queries_over

USAGE = ("usage_hours", "person_days", "gpu_days", "person_weeks", "gpu_weeks")


def test_usage_is_summed_by_user_group_node_model_and_gpu(store: HistoryStore) -> None:
    batch = WriteBatch(
        nodes=[node(1), node(2)],
        gpus=[gpu(1, 0), gpu(1, 1, model=None), gpu(2, 0)],
        usage=[
            usage(DAY, 100.0),
            usage(DAY + HOUR, 200.0, gpu_key=place(2, 0), state="held"),
            usage(DAY + HOUR, 50.0, "bob", gpu_key=place(1, 1), group="audio"),
            usage(DAY + HOUR, 3000.0, NO_USER, group="", state="free"),
        ],
    )
    queries = queries_over(store, batch)

    def summed(by: GroupBy) -> dict[str, float]:
        rows = queries.usages(DAY + 5.0, DAY + HOUR + 5.0, by).rows
        return {each.name: each.sums.gpu_seconds for each in rows}

    assert summed("user") == {"alice": 300.0, "bob": 50.0}
    assert summed("group") == {"vision": 300.0, "audio": 50.0}
    assert summed("node") == {"gpu2": 200.0, "gpu1": 150.0}
    assert summed("model") == {"H100": 300.0, "unknown": 50.0}
    by_gpu = queries.usages(DAY + 5.0, DAY + HOUR + 5.0, "gpu").rows
    assert [each.sums.gpu_seconds for each in by_gpu] == [200.0, 100.0, 50.0]
    found = queries.usages(DAY + 5.0, DAY + HOUR + 5.0, "user", daily=True)
    assert (found.start, found.end) == (DAY, DAY + 2 * HOUR)
    assert found.total == sums(350.0)
    by_state = {state: seconds for state, seconds in found.by_state.items() if seconds}
    assert by_state == {"busy": 150.0, "held": 200.0, "free": 3000.0}
    assert [each.daily for each in found.rows] == [(300.0,), (50.0,)]


def test_a_row_from_before_the_retention_does_not_move_the_start(store: HistoryStore) -> None:
    # As of a node whose clock says 1970, until the next pruning.
    rows = [usage(0, 10.0), usage(100 * DAY, 100.0)]
    queries = queries_over(store, WriteBatch(nodes=[node(1)], gpus=[gpu(1, 0)], usage=rows))
    found = queries.usages(60.0 * DAY, 101.0 * DAY, not_before=50.0 * DAY)
    assert (found.start, found.history_begins) == (100 * DAY, 100 * DAY)


def test_a_uuid_that_two_nodes_report_is_two_gpus(store: HistoryStore) -> None:
    batch = WriteBatch(
        nodes=[node(1), node(2)],
        gpus=[gpu(1, 0), gpu(2, 0)],
        usage=[usage(DAY, 100.0), usage(DAY, 3000.0, gpu_key=place(2, 0))],
    )
    rows = queries_over(store, batch).usages(DAY + 5.0, DAY + 10.0, "gpu").rows
    assert [((each.node_id, each.name), each.sums.gpu_seconds) for each in rows] == [
        (place(2, 0), 3000.0),
        (place(1, 0), 100.0),
    ]


def test_two_nodes_of_one_name_have_a_row_each(store: HistoryStore) -> None:
    batch = WriteBatch(
        nodes=[node(1, name="gpu01"), node(2, name="gpu01"), node(3)],
        gpus=[gpu(1, 0), gpu(2, 0), gpu(3, 0)],
        usage=[
            usage(DAY, 100.0),
            usage(DAY, 3000.0, gpu_key=place(2, 0)),
            usage(DAY, 7.0, gpu_key=place(3, 0)),
        ],
    )
    found = queries_over(store, batch).usages(DAY + 5.0, DAY + 10.0, "node", daily=True)
    names = {each.name: (each.sums.gpu_seconds, each.daily) for each in found.rows}
    assert names == {
        "gpu01~id-1": (100.0, (100.0,)),
        "gpu01~id-2": (3000.0, (3000.0,)),
        "gpu3": (7.0, (7.0,)),
    }


def test_an_instance_counts_as_the_model_of_its_gpu(store: HistoryStore) -> None:
    part = gpu(1, 1, model="1g.10gb", parent=gpu(1, 0).uuid)
    orphan = gpu(2, 0, model="2g.20gb", parent="GPU-never-described")
    batch = WriteBatch(
        nodes=[node(1), node(2)],
        gpus=[gpu(1, 0), part, orphan],
        usage=[
            usage(hour, seconds, gpu_key=where)
            for hour in range(DAY, DAY + 9 * 86400, HOUR)  # in hours, days and weeks
            for seconds, where in ((100.0, place(1, 0)), (10.0, place(1, 1)), (1.0, place(2, 0)))
        ],
    )
    found = queries_over(store, batch).usages(DAY + HOUR, DAY + 9 * 86400, "model", daily=True)
    hours = 9 * 24 - 1
    assert {row.name: row.sums.gpu_seconds for row in found.rows} == {
        "H100": 110.0 * hours,
        "unknown": 1.0 * hours,
    }


_hours = st.integers(0, 600) | st.integers(0, 80)

_usages = st.lists(
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
@given(usages=_usages, start=_hours, hours=_hours)
def test_weeks_days_and_hours_add_up_to_the_latest_value_of_each_hour(
    file_store: HistoryStore,
    usages: list[tuple[int, tuple[str, str], str, str, int]],
    start: int,
    hours: int,
) -> None:
    delete_usage(file_store)
    rows = [
        usage(DAY + hour * HOUR, float(seconds), user, gpu_key=where, state=state)
        for hour, where, user, state, seconds in usages
    ]
    queries = queries_over(
        file_store, *(WriteBatch(usage=rows[n : n + 7]) for n in range(0, len(rows), 7))
    )
    last = {(each.hour, each.gpu_key, each.user, each.state): each for each in rows}
    by_user: dict[str, float] = defaultdict(float)
    by_day: dict[int, float] = defaultdict(float)
    first = DAY + start * HOUR
    for each in last.values():
        if first <= each.hour < first + hours * HOUR:
            by_user[each.user] += each.sums.gpu_seconds
            by_day[each.hour // 86400] += each.sums.gpu_seconds if each.user != NO_USER else 0.0
    found = queries.usages(first, first + hours * HOUR, "user", daily=True)
    expected = {user: seconds for user, seconds in by_user.items() if seconds and user != NO_USER}
    assert {each.name: each.sums.gpu_seconds for each in found.rows} == pytest.approx(expected)
    assert sum(found.by_state.values()) == pytest.approx(sum(by_user.values()))
    by_gpu = queries.usages(first, first + hours * HOUR, "gpu", daily=True)
    assert by_gpu.total.gpu_seconds == pytest.approx(found.total.gpu_seconds)
    for rows_found in (found.rows, by_gpu.rows):
        days = [sum(day) for day in zip(*[each.daily for each in rows_found], strict=True)]
        start_day = int(found.start) // 86400  # the range is cut where the history begins
        assert days == pytest.approx([by_day[start_day + day] for day in range(len(days))])


@pytest.mark.parametrize("oldest", ["expired", "over the size limit", "the first ever"])
def test_all_figures_cover_the_range_that_is_returned(store: HistoryStore, oldest: str) -> None:
    days, kept = (5, 5) if oldest == "the first ever" else (24, 5)
    now = float(DAY + 24 * 86400 + 10 * HOUR + 1200)
    first = int(now) // HOUR * HOUR - days * 86400
    hours = range(first, int(now), HOUR)
    rows = [usage(hour, 1800.0) for hour in hours]
    rows += [usage(hour, 1800.0, NO_USER, group="", state="free") for hour in hours]
    queries = queries_over(store, WriteBatch(nodes=[node()], gpus=[gpu()], usage=rows))
    not_before = now - kept * 86400
    if oldest == "over the size limit":
        step = 86400 if store.kind == "sqlite" else 7 * 86400  # a day, or a partition
        while first + step <= not_before:
            for _ in prune_steps(store, replace(KEEP_ALL, max_bytes=0), now):
                pass
            first += step
    if oldest == "expired":
        for _ in prune_steps(store, replace(KEEP_ALL, ledger_seconds=kept * 86400.0), now):
            pass

    def asked(since: float, by: GroupBy = "user") -> Usages:
        return queries.usages(now - since * 86400, now, by, daily=True, not_before=not_before)

    begins = int(not_before) // HOUR * HOUR
    for since in (24.0, 6.0, 5.0, 4.0):
        for by in get_args(GroupBy):
            found = asked(since, by)
            assert found.start == max(begins, (now - since * 86400) // HOUR * HOUR)
            assert found.history_begins == (begins if since > 5.0 else None)
            count = (found.end - found.start) / HOUR
            assert found.total.gpu_seconds == sum(found.rows[0].daily) == 1800.0 * count
            assert found.by_state["busy"] == found.by_state["free"] == 1800.0 * count


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
    queries = queries_over(
        store, WriteBatch(nodes=[node()], gpus=[gpu(), gpu(index=1)], usage=rows)
    )

    def summed() -> list[Usages]:
        return [queries.usages(DAY, DAY + 55 * HOUR, by, daily=True) for by in get_args(GroupBy)]

    before = summed()
    with store.write_transaction() as connection:
        for table in map(schema.metadata.tables.__getitem__, USAGE):
            some = table.c.bucket // HOUR % 4 == 1
            connection.execute(table.update().where(some).values(bucket=table.c.bucket))
    assert summed() == before


def delete_usage(store: HistoryStore) -> None:
    with store.write_transaction() as connection:
        for name in USAGE:
            connection.execute(schema.metadata.tables[name].delete())
