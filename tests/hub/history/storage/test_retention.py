"""Retention: expired and excess rows are deleted in small steps, the finest first."""

import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from sqlalchemy import func, select

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.queries.strips import build_strips
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.series_row import SeriesRow
from fleet_smi.hub.history.storage import ledger_shares, retention, schema
from fleet_smi.hub.history.storage.ledger_shares import LedgerShares
from fleet_smi.hub.history.storage.retention import RetentionPolicy, prune_steps
from fleet_smi.hub.history.storage.store import HistoryStore, open_history
from fleet_smi.hub.history.storage.writer import HistoryWriter
from tests.hub.history.batches import (
    DAY,
    HOUR,
    KEEP_ALL,
    UUIDS,
    gpu,
    holder,
    node,
    numbered_batch,
    occupancy,
    period,
    place,
    series_row,
    usage,
)
from tests.machines import wait_until

NOW = float(DAY + 100_000)


@pytest.fixture
def sqlite_store(tmp_path: Path) -> Iterator[HistoryStore]:
    """A history that is pruned to the row; PostgreSQL drops partitions: `test_partitions.py`."""
    opened = open_history(tmp_path / "state" / "history.db")
    yield opened
    opened.close()


def write(store: HistoryStore, *batches: WriteBatch) -> None:
    writer = HistoryWriter(store, KEEP_ALL)
    for batch in batches:
        writer.put(batch)
    writer.close()
    assert writer.last_written == len(batches)


def rows_by_grain(store: HistoryStore) -> Counter[int]:
    with store.read_transaction() as connection:
        return Counter(connection.scalars(select(schema.series.c.grain)))


def rows_in(store: HistoryStore) -> dict[str, int]:
    with store.read_transaction() as connection:
        tables = schema.metadata.tables.items()
        return {name: len(connection.execute(table.select()).all()) for name, table in tables}


def heavy(grain: int, count: int) -> WriteBatch:
    """Rows of one grain until now, of about 300 bytes each."""
    first = int(NOW) - count * grain
    made = [
        SeriesRow(
            grain_seconds=grain,
            node_id="id-1",
            start=first + each * grain,
            uuids=UUIDS,
            data=bytes(300),
        )
        for each in range(count)
    ]
    return WriteBatch(series=made)


def test_each_grain_has_its_own_retention(sqlite_store: HistoryStore) -> None:
    series = [
        series_row(int(NOW) - age, grain=grain)
        for grain in (10, 60, 900)
        for age in (50, 500, 5000)
    ]
    write(sqlite_store, WriteBatch(series=series))
    keep = replace(KEEP_ALL, series_seconds={10: 100.0, 60: 1000.0, 900: 10_000.0})
    assert list(prune_steps(sqlite_store, keep, NOW)) != []
    assert rows_by_grain(sqlite_store) == {10: 1, 60: 2, 900: 3}


def test_rows_needed_for_unfinished_coarse_rows_stay(
    sqlite_store: HistoryStore,
) -> None:
    ages = {10: (50,), 60: (50, 1700, 1900), 900: (50, 21_500, 21_700), 10800: (50,)}
    rows = [series_row(int(NOW) - age, grain=grain) for grain in ages for age in ages[grain]]
    write(sqlite_store, WriteBatch(series=rows))
    for _ in prune_steps(
        sqlite_store, replace(KEEP_ALL, series_seconds=dict.fromkeys(ages, 1.0)), NOW
    ):
        pass
    assert rows_by_grain(sqlite_store) == {60: 2, 900: 2}


def test_ledger_rows_expire_by_their_end(sqlite_store: HistoryStore) -> None:
    write(sqlite_store, *(numbered_batch(number) for number in range(1, 11)))
    keep = replace(KEEP_ALL, ledger_seconds=NOW - DAY - 65.0)
    for _ in prune_steps(sqlite_store, keep, NOW):
        pass
    found = rows_in(sqlite_store)
    assert {found[name] for name in ("periods", "occupancies", "presence")} == {5}
    assert found["moments"] == 4
    # A part of each is to be kept.
    assert found["usage_hours"] == found["gpu_days"] == found["person_days"] == 1
    assert found["gpu_weeks"] == found["person_weeks"] == 1
    assert found["checkpoints"] == found["gpus"] == 1
    assert found["series"] == 10


def test_samples_and_weeks_expire_when_all_of_them_is_too_old(sqlite_store: HistoryStore) -> None:
    long = period(DAY, DAY + 4 * 86400.0)
    write(sqlite_store, WriteBatch(periods=[(place(), long)], usage=[usage(DAY, 10.0)]))
    assert rows_in(sqlite_store)["samples"] > 4
    for _ in prune_steps(
        sqlite_store, replace(KEEP_ALL, ledger_seconds=86400.0), DAY + 20 * 86400.0
    ):
        pass
    found = rows_in(sqlite_store)
    assert found["samples"] == found["gpu_weeks"] == found["person_weeks"] == 0


def test_no_sample_of_the_retained_time_is_deleted(store: HistoryStore) -> None:
    days = 12
    write(store, WriteBatch(periods=[(place(), period(DAY, DAY + days * 86400.0, holder()))]))
    now = DAY + days * 86400.0
    for _ in prune_steps(store, replace(KEEP_ALL, ledger_seconds=5 * 86400.0), now):
        pass
    for columns in (5 * 96, 5 * 12):  # drawn from the finer and from the coarser samples
        runs = build_strips(
            HistoryQueries(store), [place()], now - 5 * 86400.0, now, columns, WriteBatch()
        )
        assert [(run.start, run.end) for run in runs[place()]] == [(now - 5 * 86400.0, now)]


def test_a_prune_step_is_small(sqlite_store: HistoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_ROWS_PER_STEP", 20)
    write(sqlite_store, heavy(10, 100))
    left = [100]
    for _ in prune_steps(sqlite_store, replace(KEEP_ALL, series_seconds={10: 0.0}), NOW):
        left.append(rows_by_grain(sqlite_store)[10])
    assert left == [100, 79, 58, 37, 16, 0]


def test_excess_is_deleted_oldest_and_finest_first(
    sqlite_store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_ROWS_PER_STEP", 100)
    write(sqlite_store, heavy(10, 3000), heavy(60, 3000), WriteBatch(usage=[usage(DAY, 10.0)]))
    filled = sqlite_store.size_bytes() - sqlite_store.free_bytes()
    tight = replace(KEEP_ALL, max_bytes=filled - 300_000)
    for _ in prune_steps(sqlite_store, tight, NOW):
        pass
    found = rows_by_grain(sqlite_store)
    assert 1000 < found[10] < 2500
    assert found[60] == 3000
    with sqlite_store.read_transaction() as connection:
        newest = connection.scalars(
            select(schema.series.c.start).where(schema.series.c.grain == 10)
        ).all()
    assert max(newest) == NOW - 10
    assert rows_in(sqlite_store)["usage_hours"] == 1


def test_excess_of_one_node_is_deleted_before_anything_of_the_others(
    store: HistoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that reports other processes every time, with long command lines."""
    monkeypatch.setattr(ledger_shares, "_ROWS_PER_STEP", 1000)

    def jobs(number: int, count: int, command: str) -> WriteBatch:
        times = [DAY + 10.0 * each for each in range(count)]
        return WriteBatch(
            nodes=[node(number)],
            gpus=[gpu(number)],
            occupancies=[
                (
                    place(number),
                    occupancy(at, at + 10.0, holder(pid=pid, command=command + str(pid))),
                )
                for pid, at in enumerate(times, 1)
            ],
            periods=[(place(number), period(at, at + 10.0)) for at in times],
            usage=[usage(DAY, 10.0 * count, gpu_key=place(number))],
        )

    write(store, heavy(10, 500), *[jobs(number, 20, "python ") for number in (1, 2, 3)])
    write_more(store, jobs(4, 8000, secrets.token_hex(900)))
    before = rows_in(store)
    # Less than half of it, which is nearly all of one node.
    limit = store.used_bytes() * 2 // 5
    if store.kind == "sqlite":
        for _ in prune_steps(store, replace(KEEP_ALL, max_bytes=limit), NOW):
            pass
    else:  # PostgreSQL shows what was freed only after a vacuum
        for _ in LedgerShares().trim(store, limit, NOW):
            pass
    found = ledger_rows_by_node(store)
    assert found["id-1"] == found["id-2"] == found["id-3"] == 20
    assert 0 < found["id-4"] < 4000
    after = rows_in(store)
    assert (after["series"], after["usage_hours"]) == (before["series"], before["usage_hours"])
    with store.read_transaction() as connection:
        newest = connection.scalar(select(func.max(schema.occupancies.c.end)))
    assert newest == DAY + 10.0 * 8000


def write_more(store: HistoryStore, batch: WriteBatch) -> None:
    writer = HistoryWriter(store, KEEP_ALL)
    writer.put(batch)
    writer.close()


def ledger_rows_by_node(store: HistoryStore) -> Counter[str]:
    occupancies, gpus, nodes = schema.occupancies.c, schema.gpus.c, schema.nodes.c
    query = select(nodes.node_id).where(occupancies.gpu == gpus.key, gpus.node == nodes.key)
    with store.read_transaction() as connection:
        return Counter(connection.scalars(query))


def test_shares_are_measured_only_now_and_then(store: HistoryStore) -> None:
    write(store, numbered_batch(1))
    shares = LedgerShares()
    assert [*shares.trim(store, 1 << 40, NOW)] == []
    assert [*shares.trim(store, 0, NOW)]
    assert [*shares.trim(store, 0, NOW + 60.0)] == []
    assert [*shares.trim(store, 0, NOW + 3600.0)]


def test_the_ledger_is_deleted_last_a_day_at_a_time(sqlite_store: HistoryStore) -> None:
    hours = [usage(DAY + hour * HOUR, 10.0) for hour in (0, 5, 23, 24, 50)]
    write(sqlite_store, heavy(10, 10), WriteBatch(usage=hours))
    for _ in prune_steps(sqlite_store, replace(KEEP_ALL, max_bytes=0), NOW):
        pass
    found = rows_in(sqlite_store)
    assert (found["series"], found["usage_hours"]) == (0, 2)


def test_free_space_is_returned_to_the_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "_MAX_FREE_BYTES", 100_000)
    store = open_history(tmp_path / "history.db")
    write(store, heavy(10, 5000))
    before = checkpointed(store)
    for _ in prune_steps(store, replace(KEEP_ALL, series_seconds={10: 0.0}), NOW):
        pass
    assert checkpointed(store) < before / 4
    store.close()


def checkpointed(store: HistoryStore) -> int:
    """What it takes once all is in the file itself."""
    with store.engine.connect() as connection:
        raw = connection.connection.dbapi_connection
        assert raw is not None
        raw.rollback()
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return store.size_bytes()


def test_the_writer_prunes_between_batches(store: HistoryStore) -> None:
    keep = RetentionPolicy(series_seconds={10: 3600.0}, ledger_seconds=1e12, max_bytes=1 << 40)
    writer = HistoryWriter(store, keep, clock=lambda: NOW, prune_interval_seconds=0.01)
    writer.put(WriteBatch(series=[series_row(int(NOW) - 10_000), series_row(int(NOW) - 1800)]))
    wait_until(lambda: writer.last_written == 1 and rows_by_grain(store)[10] == 1)
    writer.close()
