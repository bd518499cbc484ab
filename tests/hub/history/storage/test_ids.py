"""The ids of names in the database: found by index, forgotten with their rows."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import Connection, delete, select

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.ids import IdCache
from fleet_smi.hub.history.storage.inserts import write_batch
from fleet_smi.hub.history.storage.retention import RetentionPolicy, prune_steps
from fleet_smi.hub.history.storage.store import HistoryStore, open_history
from fleet_smi.hub.history.storage.unreferenced import prune_unreferenced
from tests.hub.history.batches import (
    DAY,
    KEEP_ALL,
    gpu,
    holder,
    node,
    numbered_batch,
    occupancy,
    period,
    series_row,
    usage,
)

NOW = DAY + 100_000.0


@pytest.fixture
def store(tmp_path: Path) -> HistoryStore:
    return open_history(tmp_path / "history.db")


def people(first: int, count: int) -> WriteBatch:
    """Usage of so many people, all of one group, on one GPU."""
    users = [f"user-{number}" for number in range(first, first + count)]
    return WriteBatch(usage=[usage(DAY, 10.0, user) for user in users])


def work_of(connection: Connection, batch: WriteBatch) -> int:
    """Resolve the names of a batch; return the steps that the database made, in thousands."""
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    raw = connection.connection.driver_connection
    assert raw is not None
    raw.set_progress_handler(count, 1000)
    IdCache().resolve(connection, batch)
    raw.set_progress_handler(None, 1000)
    return steps


def test_the_work_to_find_a_name_does_not_grow_with_the_number_of_names(
    store: HistoryStore,
) -> None:
    with store.write_transaction() as connection:
        write_batch(connection, IdCache(), people(0, 100))
        work_of_few = work_of(connection, people(0, 50))
        write_batch(connection, IdCache(), people(100, 8_000))
        assert work_of(connection, people(4_000, 50)) <= 2 * work_of_few + 2


def names_in(store: HistoryStore) -> tuple[set[str], set[str]]:
    with store.read_transaction() as connection:
        users = set(connection.scalars(select(schema.people.c.user)))
        return users, set(connection.scalars(select(schema.gpus.c.uuid)))


def prune(store: HistoryStore, ids: IdCache, keep_seconds: float, now: float = NOW) -> None:
    policy = RetentionPolicy(
        series_seconds=KEEP_ALL.series_seconds, ledger_seconds=keep_seconds, max_bytes=1 << 40
    )
    for _ in prune_steps(store, policy, now):
        pass
    for _ in prune_unreferenced(store, ids):
        pass


def test_people_and_gpus_are_deleted_with_the_last_row_that_refers_to_them(
    store: HistoryStore,
) -> None:
    ids, old, recent = IdCache(), NOW - 40 * 86_400, NOW - 3_600
    key, gone = ("id-1", "GPU-now"), ("id-1", "GPU-gone")
    invented = [replace(gpu(), uuid=f"GPU-invented-{number}") for number in range(1_200)]
    first = WriteBatch(
        nodes=[node()],
        gpus=[replace(gpu(), uuid="GPU-now"), replace(gpu(), uuid="GPU-gone"), *invented],
        periods=[(gone, period(old, old + 60))],
        occupancies=[
            (gone, occupancy(old, old + 60, holder(f"invented-{number}", pid=number)))
            for number in range(1_200)
        ],
        usage=[
            usage(int(old), 10.0, "invented-1", gpu_key=gone),
            usage(int(recent), 10.0, "alice"),
        ],
    )
    second = WriteBatch(
        nodes=[node()],
        gpus=[replace(gpu(), uuid="GPU-now")],
        occupancies=[(key, occupancy(recent, recent + 60, holder("bob")))],
    )
    with store.write_transaction() as connection:
        write_batch(connection, ids, first)
        write_batch(connection, ids, second)
    prune(store, ids, keep_seconds=100 * 86_400)
    users, uuids = names_in(store)
    assert {"alice", "bob", "invented-1"} <= users
    assert {"GPU-now", "GPU-gone"} <= uuids
    prune(store, ids, keep_seconds=2 * 86_400)
    users, uuids = names_in(store)
    assert users == {"alice", "bob"}
    assert {uuid for uuid in uuids if uuid.startswith("GPU-invented")} == set()
    assert "GPU-gone" not in uuids
    assert "GPU-now" in uuids
    # A name that comes back gets a row again.
    with store.write_transaction() as connection:
        write_batch(connection, ids, first)
    users, uuids = names_in(store)
    assert "invented-7" in users
    assert "GPU-gone" in uuids


def looks_in(store: HistoryStore) -> set[str]:
    with store.read_transaction() as connection:
        return set(connection.scalars(select(schema.looks.c.user)))


def test_looks_are_deleted_with_the_last_row_of_their_user(store: HistoryStore) -> None:
    ids, old, recent = IdCache(), NOW - 40 * 86_400, NOW - 3_600
    key = ("id-1", "GPU-1")

    def held(user: str, start: float) -> WriteBatch:
        of = holder(user)
        return WriteBatch(
            nodes=[node()],
            gpus=[replace(gpu(), uuid="GPU-1")],
            periods=[(key, period(start, start + 60, of))],
            occupancies=[(key, occupancy(start, start + 60, of))],
        )

    with store.write_transaction() as connection:
        for number in range(600):
            write_batch(connection, ids, held(f"invented-{number}", old + 60 * number))
        write_batch(connection, ids, held("alice", recent))
    assert len(looks_in(store)) == 601
    prune(store, ids, keep_seconds=2 * 86_400)
    assert looks_in(store) == {"alice"}
    # One that comes back gets a row again.
    with store.write_transaction() as connection:
        write_batch(connection, ids, held("invented-1", recent + 60))
    assert looks_in(store) == {"alice", "invented-1"}


def test_the_gpus_of_a_node_that_has_not_reported_yet_stay(store: HistoryStore) -> None:
    with store.write_transaction() as connection:
        write_batch(connection, IdCache(), numbered_batch(1))
    prune(store, IdCache(), 0.0, NOW + 30 * 86_400)
    assert names_in(store)[1]
    with store.write_transaction() as connection:
        write_batch(connection, IdCache(), WriteBatch(removed_nodes=["id-1"]))
    prune(store, IdCache(), 0.0, NOW + 30 * 86_400)
    assert not names_in(store)[1]


def layouts_in(store: HistoryStore) -> set[str]:
    with store.read_transaction() as connection:
        return set(connection.scalars(select(schema.layouts.c.uuids)))


def test_layouts_are_deleted_with_the_last_series_row_that_has_them(store: HistoryStore) -> None:
    ids, old, recent = IdCache(), DAY, DAY + 90_000
    invented = [
        replace(series_row(old), node_id=f"other-{number}", uuids=(f"GPU-{number}", "GPU-b"))
        for number in range(1_200)
    ]
    first = WriteBatch(series=[*invented, series_row(old)])
    with store.write_transaction() as connection:
        write_batch(connection, ids, first)
        write_batch(connection, ids, WriteBatch(series=[series_row(recent)]))
    prune(store, ids, keep_seconds=1e12)
    assert len(layouts_in(store)) == 1_201
    with store.write_transaction() as connection:
        connection.execute(delete(schema.series).where(schema.series.c.start < recent))
    prune(store, ids, keep_seconds=1e12)
    assert layouts_in(store) == {'["GPU-a","GPU-b"]'}
    # A layout that is used again gets a row again, and its series rows are read by it.
    with store.write_transaction() as connection:
        write_batch(connection, ids, first)
    assert len(layouts_in(store)) == 1_201
    found = HistoryQueries(store).series("other-7", old, old + 60)
    assert found.gpus.keys() == {"GPU-7", "GPU-b"}
