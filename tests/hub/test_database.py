"""The hub's database: private, atomically created, never silently replaced, of a known version."""

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, select, text

from fleet_smi.errors import StateError
from fleet_smi.hub import database
from fleet_smi.hub.credentials import CredentialCache
from fleet_smi.hub.database import (
    DATABASE_FILE,
    open_database,
    read_fact,
    read_transaction,
    write_transaction,
)
from fleet_smi.hub.tokens import TokenStore


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    opened = open_database(tmp_path / "state")
    yield opened
    opened.dispose()


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_the_database_is_readable_by_its_owner_only(engine: Engine, tmp_path: Path) -> None:
    TokenStore(engine).add("viewer")
    state = tmp_path / "state"
    assert mode(state) == 0o700
    found = {path.name: mode(path) for path in state.iterdir()}
    assert found == {
        DATABASE_FILE: 0o600,
        f"{DATABASE_FILE}-wal": 0o600,
        f"{DATABASE_FILE}-shm": 0o600,
    }


def test_an_old_file_that_others_could_read_is_made_private(tmp_path: Path) -> None:
    open_database(tmp_path / "state").dispose()
    (tmp_path / "state" / DATABASE_FILE).chmod(0o644)
    open_database(tmp_path / "state").dispose()
    assert mode(tmp_path / "state" / DATABASE_FILE) == 0o600


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o777)
    with pytest.raises(StateError, match="chmod go-w"):
        open_database(tmp_path / "state")


def test_an_impossible_folder_is_named_in_the_error(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(StateError, match=f"{tmp_path}/state cannot be used"):
        open_database(tmp_path / "state")


def test_commits_are_synchronous_and_other_processes_may_read(engine: Engine) -> None:
    def pragma(name: str) -> object:
        with read_transaction(engine) as connection:
            return connection.scalar(text(f"PRAGMA {name}"))

    assert pragma("journal_mode") == "wal"
    assert pragma("synchronous") == 2
    assert pragma("foreign_keys") == 1
    assert pragma("busy_timeout") == 5000


def test_data_survives_reopening(tmp_path: Path) -> None:
    first = open_database(tmp_path / "state")
    TokenStore(first).add("viewer", "bob")
    first.dispose()
    again = open_database(tmp_path / "state")
    assert [token.note for token in TokenStore(again).list_all()] == ["bob"]
    again.dispose()


def test_a_transaction_is_atomic(engine: Engine) -> None:
    with pytest.raises(ZeroDivisionError), write_transaction(engine) as connection:
        connection.execute(text("DELETE FROM facts"))
        _ = 1 / 0
    with read_transaction(engine) as connection:
        assert read_fact(connection, "session_secret")


def test_many_processes_may_create_it_concurrently(tmp_path: Path) -> None:
    state, many = tmp_path / "state", 6
    together = threading.Barrier(many)

    def open_and_add() -> None:
        together.wait()
        engine = open_database(state)
        TokenStore(engine).add("viewer")
        engine.dispose()

    threads = [threading.Thread(target=open_and_add) for _ in range(many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine = open_database(state)
    assert len(TokenStore(engine).list_all()) == many
    engine.dispose()
    assert [path.name for path in state.iterdir()] == [DATABASE_FILE]


def test_a_database_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    state = tmp_path / "state"
    open_database(state).dispose()
    with sqlite3.connect(state / DATABASE_FILE) as connection:
        connection.execute("UPDATE facts SET value = '99' WHERE name = 'schema'")
    connection.close()
    before = (state / DATABASE_FILE).read_bytes()
    with pytest.raises(StateError, match=r"is of version 99 .* update fleet-smi"):
        open_database(state)
    assert (state / DATABASE_FILE).read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 400, None])
def test_a_damaged_database_is_refused_and_never_replaced(
    tmp_path: Path, content: bytes | None
) -> None:
    state = tmp_path / "state"
    open_database(state).dispose()
    path = state / DATABASE_FILE
    damaged = path.read_bytes()[:3000] if content is None else content
    path.write_bytes(damaged)
    with pytest.raises(StateError, match=r"hub\.db.*move the file away") as refused:
        open_database(state)
    assert "\n" not in str(refused.value)
    if damaged:  # SQLite writes its header into an empty file
        assert path.read_bytes() == damaged


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    with sqlite3.connect(tmp_path / "state" / DATABASE_FILE) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
    connection.close()
    with pytest.raises(StateError, match="is not a database of fleet-smi"):
        open_database(tmp_path / "state")


def test_an_older_database_is_migrated_step_by_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def to_2(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE users ADD COLUMN mail TEXT"))

    def to_3(connection: Connection) -> None:
        connection.execute(text("UPDATE users SET mail = name"))

    state = tmp_path / "state"
    monkeypatch.setattr(database, "MIGRATIONS", ())
    open_database(state).dispose()
    for steps in ((to_2,), (to_2, to_3), (to_2, to_3)):
        monkeypatch.setattr(database, "MIGRATIONS", steps)
        engine = open_database(state)
        with read_transaction(engine) as connection:
            assert read_fact(connection, "schema") == str(1 + len(steps))
            connection.execute(text("SELECT mail FROM users"))
        engine.dispose()


def make_first_version(connection: sqlite3.Connection) -> None:
    """Take away what later versions added."""
    for name in database.metadata.tables.keys() - {"facts", "nodes", "tokens", "users"}:
        connection.execute(f"DROP TABLE {name}")
    connection.execute("ALTER TABLE tokens DROP COLUMN person")
    connection.execute("UPDATE facts SET value = '1' WHERE name = 'schema'")


def test_the_first_version_is_migrated_to_the_current_one(tmp_path: Path) -> None:
    state = tmp_path / "state"
    open_database(state).dispose()
    with sqlite3.connect(state / DATABASE_FILE) as connection:
        make_first_version(connection)
    connection.close()
    engine = open_database(state)
    with read_transaction(engine) as connection_now:
        assert read_fact(connection_now, "schema") == str(database.schema_version())
        for table in database.metadata.sorted_tables:
            connection_now.execute(select(table))
    engine.dispose()


def test_tokens_of_before_are_kept_and_belong_to_nobody(tmp_path: Path) -> None:
    state = tmp_path / "state"
    engine = open_database(state)
    secret = TokenStore(engine).add("admin", "the old one").secret
    engine.dispose()
    with sqlite3.connect(state / DATABASE_FILE) as connection:
        make_first_version(connection)
    connection.close()
    engine = open_database(state)
    credentials = CredentialCache(engine)
    identity = credentials.identify_token(secret)
    assert identity is not None
    assert (identity.role, identity.name, identity.person) == ("admin", "the old one", None)
    credentials.close()
    engine.dispose()


def test_a_failed_migration_leaves_the_old_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(connection: Connection) -> None:
        connection.execute(text("ALTER TABLE users ADD COLUMN mail TEXT"))
        connection.execute(text("SELECT 1 FROM nowhere"))

    state = tmp_path / "state"
    monkeypatch.setattr(database, "MIGRATIONS", ())
    open_database(state).dispose()
    monkeypatch.setattr(database, "MIGRATIONS", (fails,))
    with pytest.raises(StateError, match="no such table: nowhere"):
        open_database(state)
    monkeypatch.setattr(database, "MIGRATIONS", ())
    engine = open_database(state)
    with read_transaction(engine) as connection, pytest.raises(Exception, match="no such column"):
        connection.execute(text("SELECT mail FROM users"))
    engine.dispose()


def test_a_new_connection_does_not_create_a_database_in_the_place_of_a_removed_one(
    engine: Engine, tmp_path: Path
) -> None:
    file = tmp_path / "state" / "hub.db"
    away = file.rename(tmp_path / "hub.db")
    with read_transaction(engine), ThreadPoolExecutor(1) as other:
        # Each thread needs a connection of its own.
        failure = other.submit(TokenStore(engine).list_all).exception(60)
    assert "was moved, removed or replaced" in str(failure)
    assert not file.exists()
    away.rename(file)
    assert TokenStore(engine).list_all() == []


def test_nothing_is_written_to_a_database_that_was_moved_away(
    engine: Engine, tmp_path: Path
) -> None:
    tokens, state = TokenStore(engine), tmp_path / "state"
    state.rename(tmp_path / "away")
    with pytest.raises(StateError, match=r"hub\.db was moved, removed or replaced: put it back"):
        tokens.add("viewer")
    other = open_database(state)
    with pytest.raises(StateError, match="or restart the hub"):
        tokens.add("viewer")
    other.dispose()
    state.rename(tmp_path / "other")
    (tmp_path / "away").rename(state)
    tokens.add("viewer")
    assert len(tokens.list_all()) == 1
