"""The history store: one suite for an SQLite file and for a PostgreSQL server."""

import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect, select, text

from fleet_smi.errors import StateError, UsageError
from fleet_smi.hub.history.queries.sql import HistoryQueries
from fleet_smi.hub.history.storage import migrations, schema
from fleet_smi.hub.history.storage.partitions import PARTITIONINGS
from fleet_smi.hub.history.storage.store import HistoryStore, open_history
from fleet_smi.hub.history.storage.writer import HistoryWriter
from tests.hub.history.batches import KEEP_ALL, numbered_batch
from tests.machines import wait_until
from tests.postgres import Postgres


def version_in(store: HistoryStore) -> str:
    with store.read_transaction() as connection:
        return str(connection.scalar(select(schema.facts.c.value)))


def columns_in(store: HistoryStore) -> dict[str, set[str]]:
    with store.read_transaction() as connection:
        found = inspect(connection)
        return {
            name: {column["name"] for column in found.get_columns(name)}
            for name in found.get_table_names()
        }


def test_a_new_database_has_every_table_and_is_small(store: HistoryStore) -> None:
    defaults = {each.default_name for each in PARTITIONINGS if store.kind == "postgresql"}
    assert set(columns_in(store)) == {*schema.metadata.tables, *defaults}
    assert 0 < store.size_bytes() < 1 << 20
    assert store.free_bytes() <= store.size_bytes()
    assert store.damage_message is None


def test_an_existing_database_is_opened_again(where: str) -> None:
    for _ in range(2):
        store = open_history(where)
        assert version_in(store) == str(migrations.schema_version())
        store.close()


def test_a_newer_schema_is_refused_and_not_changed(where: str) -> None:
    store = open_history(where)
    with store.write_transaction() as connection:
        connection.execute(schema.facts.update().values(value="99"))
    store.close()
    with pytest.raises(StateError, match=r"is of version 99 and this fleet-smi knows \d+: update"):
        open_history(where)


def test_a_database_of_another_program_is_refused(where: str) -> None:
    store = open_history(where)
    with store.write_transaction() as connection:
        schema.metadata.drop_all(connection)
        connection.execute(text("CREATE TABLE recipes (name TEXT)"))
    store.close()
    with pytest.raises(StateError, match="is not a fleet-smi history"):
        open_history(where)


def test_an_older_schema_is_migrated_step_by_step(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def to_2(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE nodes ADD COLUMN rack TEXT"))

    def to_3(connection: Connection) -> None:
        connection.execute(text("UPDATE nodes SET rack = name"))

    monkeypatch.setattr(migrations, "MIGRATIONS", ())
    open_history(where).close()
    for steps in ((to_2,), (to_2, to_3), (to_2, to_3)):
        monkeypatch.setattr(migrations, "MIGRATIONS", steps)
        store = open_history(where)
        assert version_in(store) == str(1 + len(steps))
        assert "rack" in columns_in(store)["nodes"]
        store.close()


def test_a_failed_migration_leaves_the_old_schema(
    where: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE nodes ADD COLUMN rack TEXT"))
        connection.execute(text("SELECT 1 FROM nowhere"))

    monkeypatch.setattr(migrations, "MIGRATIONS", ())
    open_history(where).close()
    monkeypatch.setattr(migrations, "MIGRATIONS", (fails,))
    store = open_history(where)
    assert "nowhere" in caplog.text
    with pytest.raises(StateError, match="nowhere"), store.read_transaction():
        pass
    monkeypatch.setattr(migrations, "MIGRATIONS", ())
    store.prepare()
    assert "rack" not in columns_in(store)["nodes"]
    store.close()


def test_readers_never_wait_for_the_writer(tmp_path: Path) -> None:
    store = open_history(tmp_path / "history.db")
    store.close()  # the next query must connect again
    with closing(sqlite3.connect(tmp_path / "history.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        other.execute("INSERT INTO facts VALUES ('not', 'yet')")
        assert version_in(store) == str(migrations.schema_version())
        other.execute("ROLLBACK")
    assert store.vacuum_step()
    store.close()


def test_only_its_owner_may_read_the_file(tmp_path: Path) -> None:
    store = open_history(tmp_path / "state" / "history.db")
    found = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()}
    assert found["history.db"] == found["history.db-wal"] == 0o600
    store.close()


@pytest.mark.parametrize("content", [b"no database at all" * 400, None])
def test_a_damaged_file_is_set_aside_and_replaced(
    tmp_path: Path, content: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.db"
    open_history(path).close()
    damaged = path.read_bytes()[:3000] if content is None else content
    path.write_bytes(damaged)
    store = open_history(path)
    (aside,) = tmp_path.glob("history.db.damaged-*[0-9]")
    assert aside.read_bytes() == damaged
    assert store.damage_message == f"history.db was damaged and is set aside as {aside.name}"
    assert store.damage_message in caplog.text
    assert version_in(store) == str(migrations.schema_version())
    store.close()


def test_an_emptied_file_is_filled_anew_and_the_past_is_a_gap(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "history.db"
    first = open_history(path)
    assert first.damage_message is None  # a new one has lost nothing
    first.close()
    path.write_bytes(b"")
    store = open_history(path)
    assert store.damage_message == "history.db was empty: what it had is lost"
    assert store.damage_message in caplog.text
    writer = HistoryWriter(store, KEEP_ALL)
    writer.put(numbered_batch(1))
    writer.close()
    (gap,) = HistoryQueries(store).gaps(0.0, time.time())
    assert (gap.start, gap.why) == (0.0, store.damage_message)
    store.close()


def test_an_unusable_location_is_logged_and_used_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "state").write_text("a file")
    store = open_history(tmp_path / "state" / "history.db")
    assert "history is not available yet" in caplog.text
    (tmp_path / "state").unlink()
    store.prepare()
    assert store.size_bytes() > 0
    store.close()


def test_an_unreachable_server_is_used_when_it_returns(
    postgres: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    with postgres.database() as url:
        postgres.stop()
        try:
            with caplog.at_level(logging.WARNING):
                store = open_history(url)
            assert "history is not available yet" in caplog.text
        finally:
            postgres.start()
        store.prepare()
        assert version_in(store) == str(migrations.schema_version())
        store.close()


def test_two_hubs_do_not_write_to_one_history(where: str, caplog: pytest.LogCaptureFixture) -> None:
    first = open_history(where)
    second = open_history(where, lock_timeout_seconds=0.0)
    assert f"another hub writes to {second.name}: set another" in caplog.text
    for use in (second.write_transaction, second.read_transaction):
        with pytest.raises(StateError, match="another hub writes"), use():
            pass
    with first.write_transaction() as connection:
        assert connection.scalar(select(schema.facts.c.value)) is not None
    first.close()
    wait_until(lambda: _can_write(second))
    assert version_in(second) == str(migrations.schema_version())
    second.close()


def _can_write(store: HistoryStore) -> bool:
    """Whether the lock is free: PostgreSQL ends the session of a closed connection by and by."""
    try:
        with store.write_transaction():
            return True
    except StateError:
        return False


def test_the_first_hub_to_lock_a_restarted_server_writes(postgres: Postgres) -> None:
    with postgres.database() as url:
        first, second = open_history(url), open_history(url, lock_timeout_seconds=0.0)
        postgres.stop()
        postgres.start()
        with second.write_transaction():
            pass
        with pytest.raises(StateError, match="another hub writes"), first.write_transaction():
            pass
        second.close()
        wait_until(lambda: _can_write(first))
        first.close()


def test_a_location_that_is_neither_path_nor_url_is_refused() -> None:
    with pytest.raises(UsageError, match="neither a path nor the URL"):
        open_history("somewhere")


def test_a_password_is_never_shown() -> None:
    store = open_history("postgresql://fleet:secret@127.0.0.1:1/fleet")
    assert "secret" not in store.name
    store.close()
