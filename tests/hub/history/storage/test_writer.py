"""The history writer: whole batches, no blocking, and recovery from database failures."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, event

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.recording.rows import Checkpoint, Presence, WriteBatch
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.store import HistoryStore, open_history
from fleet_smi.hub.history.storage.writer import HistoryWriter
from fleet_smi.model.history import Gap
from tests.builders import NOON, process, snapshot
from tests.builders import gpu as card_of
from tests.hub.history.batches import (
    DAY,
    KEEP_ALL,
    gpu,
    node,
    numbered_batch,
    occupancy,
    period,
    place,
    series_row,
)
from tests.hub.history.in_memory_history import RecordedFleet
from tests.machines import small_disk, wait_until
from tests.postgres import Postgres

WITH_NUMBERS = ("periods", "occupancies", "presence", "series", "moments")


class Clock:
    """Goes on by a second at each look."""

    def __init__(self) -> None:
        self.now = float(DAY)

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@contextmanager
def writing(store: HistoryStore, **options: Any) -> Iterator[HistoryWriter]:
    quick: dict[str, Any] = {"retry_seconds": 0.01, "clock": Clock()} | options
    writer = HistoryWriter(store, KEEP_ALL, **quick)
    try:
        yield writer
    finally:
        writer.close()


def all_written(writer: HistoryWriter, seconds: float = 10.0) -> None:
    wait_until(lambda: not writer.pending_batches(), seconds)


def rows_in(store: HistoryStore, *names: str) -> dict[str, list[tuple[Any, ...]]]:
    with store.read_transaction() as connection:
        tables = (schema.metadata.tables[name] for name in names or schema.metadata.tables)
        return {
            table.name: sorted(map(tuple, connection.execute(table.select()))) for table in tables
        }


def test_all_of_a_batch_is_written(store: HistoryStore) -> None:
    with writing(store) as writer:
        writer.put(numbered_batch(1))
        all_written(writer)
    found = rows_in(store)
    assert {name for name, rows in found.items() if not rows} == {"gaps", "samples"}
    assert (writer.failures, writer.last_error, writer.current_gap) == (0, None, None)


def test_writing_a_batch_twice_changes_nothing(store: HistoryStore) -> None:
    batches = [numbered_batch(1), numbered_batch(2)]
    with writing(store) as writer:
        for batch in batches:
            writer.put(batch)
        all_written(writer)
        once = rows_in(store)
        for batch in batches:
            writer.put(batch)
        all_written(writer)
    assert rows_in(store) == once


def test_gaps_are_written_and_joined_occupancies_removed(store: HistoryStore) -> None:
    last = WriteBatch(
        gaps=[Gap(start=5.0, end=5.0, why="the clock was set back")],
        removed_occupancies=[
            (place(), float(DAY + 10), 100),
            (place(), float(DAY + 20), 100),
            (place(), 1.0, 1),
        ],
        occupancies=[(place(), occupancy(float(DAY + 20), float(DAY + 40)))],
    )
    with writing(store) as writer:
        for batch in (numbered_batch(1), numbered_batch(2), numbered_batch(3), last):
            writer.put(batch)
        all_written(writer)
    (found,) = HistoryQueries(store).occupancies(0.0, 1e12)
    assert [(one.start, one.end) for one in found.occupancies] == [
        (DAY + 20, DAY + 40),
        (DAY + 30, DAY + 40),
    ]
    assert HistoryQueries(store).gaps(0.0, 9.0) == last.gaps


def test_a_renamed_node_keeps_its_id(store: HistoryStore) -> None:
    with writing(store) as writer:
        writer.put(WriteBatch(nodes=[node()], gpus=[gpu()]))
        writer.put(WriteBatch(nodes=[node(name="new"), node(2)], gpus=[gpu(index=0, model="B200")]))
    nodes = rows_in(store, "nodes")["nodes"]
    assert [(key, name) for key, _, name, _ in nodes] == [(1, "new"), (nodes[1][0], "gpu2")]
    assert [each.model for each in HistoryQueries(store).gpus()] == ["B200"]


def test_a_gpu_without_a_description_is_stored_by_its_uuid(store: HistoryStore) -> None:
    with writing(store) as writer:
        writer.put(WriteBatch(periods=[(place(), period(1.0, 2.0))]))
    (found,) = HistoryQueries(store).periods(None, 0.0, 9.0)
    assert (found.gpu.node, found.gpu.uuid) == ("id-1", "GPU-a")


def test_stored_descriptions_survive_a_restart(where: str) -> None:
    for batch in (
        WriteBatch(nodes=[node(name="called so")], gpus=[gpu()]),
        WriteBatch(periods=[(place(), period(1.0, 2.0))]),
    ):
        store = open_history(where)
        with writing(store) as writer:
            writer.put(batch)
        described = HistoryQueries(store).nodes(), HistoryQueries(store).gpus()
        store.close()
    assert described == ([node(name="called so")], [replace(gpu(), node="called so")])


def test_checkpoints_that_were_not_restored_are_closed_before_they_are_replaced(
    store: HistoryStore,
) -> None:
    before, after = RecordedFleet(), RecordedFleet()
    for second in range(30):
        card = card_of(processes=(process(1),), busy_percent=95.0)
        before.take(snapshot(card, sequence=second, run_id="run"), NOON + second)
        after.take(snapshot(card_of(), sequence=second, run_id="next"), NOON + 900 + second)
    for watched in (before, after):
        watched.history.close()
        with writing(store) as writer:  # and nobody asks it for what was open
            for batch in watched.stored.batches:
                writer.put(batch)
    (found,) = HistoryQueries(store).periods(None, NOON, NOON + 60)
    assert [(one.start, one.end, one.certain) for one in found.periods] == [
        (NOON, NOON + 30, False)
    ]
    (left,) = HistoryQueries(store).occupancies(NOON, NOON + 60)
    assert left.occupancies[0].sums.gpu_seconds == pytest.approx(30.0)


def test_a_new_hub_reads_the_last_checkpoint_of_each_node(where: str) -> None:
    store = open_history(where)
    with writing(store) as writer:
        writer.put(WriteBatch(checkpoints=[Checkpoint(node_id="a", data=b"1")]))
        later = [Checkpoint(node_id="a", data=b"2"), Checkpoint(node_id="b", data=b"\x00\xff")]
        writer.put(WriteBatch(checkpoints=later))
        writer.put(WriteBatch(checkpoints=[Checkpoint(node_id="c", data=b"3")]))
        writer.put(WriteBatch(removed_nodes=["c", "unknown"]))
    store.close()
    store = open_history(where)
    with writing(store) as writer:
        assert sorted(writer.checkpoints(), key=lambda each: each.node_id) == later
    store.close()


def test_an_unwritable_batch_is_dropped_alone(
    store: HistoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    unwritable = numbered_batch(2)
    unwritable.presence = [
        *unwritable.presence,
        Presence(node_id="id-1", start=5.0, end=None),
    ]
    with writing(store) as writer:
        for batch in (numbered_batch(1), unwritable, numbered_batch(3)):
            writer.put(batch)
        all_written(writer)
    found = rows_in(store, *WITH_NUMBERS)
    assert {len(rows) for rows in found.values()} == {2}
    (gap,) = HistoryQueries(store).gaps(0.0, DAY + 1e6)
    assert "NULL" in gap.why or "null" in gap.why
    # The batches before and after it are written: their time is no part of the gap.
    assert gap.end is not None
    assert 0 < gap.end - gap.start <= 2.0
    assert "cannot be written" in caplog.text
    assert writer.current_gap is None


def test_a_locked_database_blocks_no_caller_and_is_written_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, other = locked_history(tmp_path / "history.db")
    with writing(store) as writer:
        for number in range(100):
            writer.put(numbered_batch(number))
        wait_until(lambda: writer.failures >= 3)
        assert writer.last_written == 0
        assert writer.last_error is not None
        assert "locked" in writer.last_error
        other.execute("ROLLBACK")
        other.close()
        all_written(writer)
    assert len(rows_in(store, "moments")["moments"]) == 100
    assert HistoryQueries(store).gaps(0.0, 1e12) == []
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2  # once when it begins, once when it ends
    assert "written again" in said[1]
    store.close()


def locked_history(path: Path) -> tuple[HistoryStore, sqlite3.Connection]:
    """A history that waits for no lock, and another who has locked it."""
    store = open_history(path)
    impatient(store.engine)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    return store, other


def impatient(engine: Engine) -> None:
    """Let nobody wait for another's lock."""

    @event.listens_for(engine, "checkout")
    def prepare(connection: sqlite3.Connection, *_: object) -> None:
        connection.execute("PRAGMA busy_timeout=1")


def test_a_full_queue_says_so_and_drops_nothing(tmp_path: Path) -> None:
    store, other = locked_history(tmp_path / "history.db")
    with writing(store, max_queued_bytes=40_000) as writer:
        assert not writer.is_behind
        for number in range(6):
            writer.put(numbered_batch(number))
        assert (writer.is_behind, writer.is_full) == (True, False)
        for number in range(6, 50):
            writer.put(numbered_batch(number))
        wait_until(lambda: writer.failures > 1)
        assert writer.is_full  # also while an attempt is under way
        assert not writer.is_written(1)
        open_gap = writer.current_gap
        assert open_gap is not None
        assert open_gap.end is None
        assert "locked" in open_gap.why
        other.execute("ROLLBACK")
        other.close()
        all_written(writer)
        wait_until(lambda: not writer.is_behind)
        assert writer.last_error is None
    assert len(rows_in(store, "moments")["moments"]) == 50
    assert HistoryQueries(store).gaps(0.0, 1e12) == []
    store.close()


def test_rows_of_the_finest_grain_that_have_expired_are_not_written(store: HistoryStore) -> None:
    keep = replace(KEEP_ALL, series_seconds={10: 3600.0, 60: 3600.0, 900: 1e12})
    writer = HistoryWriter(store, keep, clock=lambda: float(DAY), prune_interval_seconds=1e9)
    batch = numbered_batch(1)
    batch.series = [
        series_row(DAY - age, grain=grain) for age in (86400, 600) for grain in (10, 60, 900)
    ]
    writer.put(batch)
    writer.close()
    found = rows_in(store, "series", "periods", "usage_hours")
    assert sorted(row[:2] for row in found["series"]) == [
        (10, DAY - 600), (60, DAY - 86400), (60, DAY - 600), (900, DAY - 86400), (900, DAY - 600),
    ]  # fmt: skip
    assert len(found["periods"]) == len(found["usage_hours"]) == 1


@pytest.fixture
def full_soon(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB."""
    with small_disk(tmp_path / "small", mebibytes=2) as folder:
        yield folder


def fat(number: int) -> WriteBatch:
    """A batch that takes about 20 KiB."""
    batch = numbered_batch(number)
    batch.checkpoints = [
        Checkpoint(node_id=f"id-{number}-{each}", data=bytes([each]) * 2000) for each in range(10)
    ]
    return batch


def test_a_full_disk_loses_nothing_once_there_is_room(full_soon: Path) -> None:
    store = open_history(full_soon / "history.db")
    ballast = full_soon / "ballast"
    ballast.write_bytes(bytes(1_200_000))
    with writing(store, max_queued_bytes=400_000) as writer:
        last = 0
        while writer.failures < 3:  # after one there may still be a little room
            last = writer.put(fat(last))
            wait_until(lambda: writer.failures >= 3 or not writer.pending_batches())
        written = len(rows_in(store, "moments")["moments"])  # what is there can be read
        assert 0 < written == writer.last_written
        for _ in range(20):
            last = writer.put(fat(last))
        wait_until(lambda: "full" in (writer.last_error or ""))
        assert writer.is_full
        assert writer.current_gap is not None
        assert not writer.is_written(last)
        ballast.unlink()
        all_written(writer)
        assert writer.failures == 0
    found = {name: len(rows) for name, rows in rows_in(store, *WITH_NUMBERS).items()}
    assert set(found.values()) == {last}
    assert HistoryQueries(store).gaps(0.0, 1e12) == []
    store.close()


def test_a_file_damaged_at_run_time_is_set_aside_and_writing_continues(
    tmp_path: Path,
) -> None:
    path = tmp_path / "history.db"
    store = open_history(path)
    with writing(store) as writer:
        writer.put(numbered_batch(1))
        all_written(writer)
        with sqlite3.connect(path) as other:
            other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        other.close()
        content = path.read_bytes()
        path.write_bytes(content[:4096] + b"\xa5" * (len(content) - 4096))
        store.engine.dispose()
        writer.put(numbered_batch(2))
        all_written(writer)
    assert list(tmp_path.glob("history.db.damaged-*"))
    assert [at for at, *_ in rows_in(store, "moments")["moments"]] == [DAY + 20.0]
    assert [each.node for each in HistoryQueries(store).gpus()] == ["gpu1"]
    (gap,) = HistoryQueries(store).gaps(0.0, 1e12)
    assert gap.start == 0.0
    assert "was damaged and is set aside" in gap.why
    store.close()


def test_a_restarted_server_loses_no_queued_batch(
    postgres: Postgres,
) -> None:
    with postgres.database() as url:
        store = open_history(url)
        with writing(store) as writer:
            writer.put(numbered_batch(1))
            all_written(writer)
            postgres.stop()
            try:
                for number in range(2, 12):
                    writer.put(numbered_batch(number))
                wait_until(lambda: writer.failures >= 2)
            finally:
                postgres.start()
            all_written(writer)
        assert len(rows_in(store, "moments")["moments"]) == 11
        assert HistoryQueries(store).gaps(0.0, 1e12) == []
        store.close()


def test_closing_ends_the_thread_while_writes_fail(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    store, other = locked_history(tmp_path / "history.db")
    with writing(store, retry_seconds=600.0) as writer:
        writer.put(numbered_batch(1))
        wait_until(lambda: writer.failures > 0)
        assert set(threading.enumerate()) > before
    other.close()
    assert writer.last_written == 0
    assert set(threading.enumerate()) <= before
    store.close()


def test_closing_writes_all_queued_batches(store: HistoryStore) -> None:
    with writing(store) as writer:
        for number in range(40):
            writer.put(numbered_batch(number))
    assert len(rows_in(store, "moments")["moments"]) == 40


def test_hundreds_of_nodes_in_one_batch_are_written(store: HistoryStore) -> None:
    batch = WriteBatch(
        nodes=[node(number) for number in range(500)],
        series=[series_row(DAY, number=number) for number in range(500)],
        checkpoints=[Checkpoint(node_id=f"id-{each}", data=bytes(2000)) for each in range(500)],
    )
    with writing(store) as writer:
        writer.put(batch)
        all_written(writer, 60.0)
    assert len(rows_in(store, "series")["series"]) == 500
