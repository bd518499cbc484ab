"""The history writer while the database fails: nothing is lost, nobody waits, gaps are recorded."""

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import Engine, event

from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.recording.rows import Checkpoint, Presence, WriteBatch
from fleet_smi.hub.history.storage.store import HistoryStore, open_history
from tests.hub.history.batches import DAY, gpu, node, numbered_batch, occupancy, period, place
from tests.hub.history.storage.writing import WITH_NUMBERS, all_written, rows_in, writing
from tests.machines import small_disk, wait_until
from tests.postgres import Postgres


def test_a_row_that_the_database_rejects_is_left_out_alone(
    store: HistoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    unwritable = numbered_batch(2)
    unwritable.presence.insert(0, Presence(node_id="id-7", start=5.0, end=None))
    with writing(store) as writer:
        for batch in (numbered_batch(1), unwritable, numbered_batch(3)):
            writer.put(batch)
        all_written(writer)
        rejected = [(row.name, row.node_id) for row in writer.take_rejected()]
    found = rows_in(store, *WITH_NUMBERS)
    assert {len(rows) for rows in found.values()} == {3}
    assert rejected == [("presence", "id-7")]
    assert writer.take_rejected() == []
    (gap,) = HistoryQueries(store).gaps(0.0, DAY + 1e6)
    assert "NULL" in gap.why or "null" in gap.why
    # The batches before and after it are whole: their time is no part of the gap.
    assert gap.end is not None
    assert 0 < gap.end - gap.start <= 2.0
    assert "cannot be written" in caplog.text
    assert writer.current_gap is None


def test_the_other_rows_of_a_batch_are_written_in_their_order(store: HistoryStore) -> None:
    start = float(DAY + 10)
    without_end: Any = None
    batch = numbered_batch(1)
    batch.removed_occupancies.append((place(), start, 100))
    batch.occupancies = [
        (place(), occupancy(start, start + 80)),  # removed first, and there again
        (place(), occupancy(0.0, without_end)),
    ]
    batch.periods.insert(0, (place(), period(0.0, without_end)))
    hour = batch.usage[0]
    batch.usage = [replace(hour, state=without_end), hour, replace(hour, state=without_end)]
    with writing(store) as writer:
        for each in (numbered_batch(1), batch):
            writer.put(each)
        all_written(writer)
        assert len(writer.take_rejected()) == 4
    (found,) = HistoryQueries(store).occupancies(0.0, 1e12)
    assert [(one.start, one.end) for one in found.occupancies] == [(start, start + 80)]
    (day,) = rows_in(store, "person_days")["person_days"]
    assert day[2] == hour.sums.gpu_seconds, "counted once"


def test_a_description_that_cannot_be_written_does_not_cost_the_rows_of_its_node(
    store: HistoryStore,
) -> None:
    with writing(store) as writer:
        writer.put(WriteBatch(nodes=[node(name=None)], gpus=[gpu(vendor=None)]))
        writer.put(WriteBatch(periods=[(place(), period(1.0, 2.0))]))
        all_written(writer)
    (found,) = HistoryQueries(store).periods(None, 0.0, 9.0)
    assert (found.gpu.node, found.gpu.uuid) == ("id-1", "GPU-a")


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
