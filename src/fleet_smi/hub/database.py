"""The hub's SQLite database: its tables, how it is opened, and its schema migrations.

Commits reach the disk before they return (`synchronous=FULL`): a revoked token must not become
valid again after a power failure, and a receipt promises that a report is durable.
"""

import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Float,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    create_engine,
    event,
    insert,
    inspect,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.pool import ConnectionPoolEntry

from fleet_smi.errors import StateError
from fleet_smi.hub import state_metadata
from fleet_smi.hub.reservation_tables import add_vouching_node, calendar_feeds, reservations
from fleet_smi.paths import ensure_private_folder

DATABASE_FILE = "hub.db"
_FileId = tuple[int, int]
_LOCK_TIMEOUT_SECONDS = 5.0
SERVER_CONNECT_ARGS: dict[str, int] = {
    "connect_timeout": 5,
    # Without these a query over a connection that was cut hangs for a quarter of an hour, and goes
    # on minutes after the network is back.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,  # milliseconds
}
"""How a PostgreSQL server is connected to."""
CORRUPTION_CODES = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON")
_REMEDY = (
    "stop the hub and restore a good copy; if you have none, move the file away: "
    "the hub then starts empty, and every node and viewer needs a new token"
)

metadata = state_metadata.metadata
# Single named values: the schema version, the secret of sessions, the revision of credentials.
facts = Table(
    "facts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
nodes = Table(
    "nodes",
    metadata,
    Column("node_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("at", Float),
    Column("remembered", LargeBinary, nullable=False),
)
tokens = Table(
    "tokens",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", LargeBinary, nullable=False, unique=True),
    Column("role", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("node_id", Text),
    Column("created_at", Float, nullable=False),
    Column("used_at", Float),
    Column("expires_at", Float),
    Column("uses_left", Integer),
    Column("revoked_at", Float),
    Column("person", Text),
)
_LIVE = tokens.c.revoked_at.is_(None)
# The database itself ensures that a node has one credential, however many join concurrently.
Index(
    "one_live_token_a_node",
    tokens.c.node_id,
    unique=True,
    sqlite_where=_LIVE,
    postgresql_where=_LIVE,
)
users = Table(
    "users",
    metadata,
    Column("name", Text, primary_key=True),
    Column("role", Text, nullable=False),
    Column("password_hash", Text, nullable=False),
    Column("session_stamp", Text, nullable=False),
    Column("created_at", Float, nullable=False),
)
ended_sessions = Table(
    "ended_sessions",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("expires_at", Float, nullable=False),
)
# Requests for GPUs that wait, and the offers that some of them have; both as JSON.
queue = Table(
    "queue",
    metadata,
    Column("id", Text, primary_key=True),
    Column("person", Text, nullable=False),
    Column("arrived_at", Float, nullable=False),
    Column("seen_at", Float, nullable=False),
    Column("request", Text, nullable=False),
    Column("state", Text, nullable=False),
)


def _add_person(connection: Connection) -> None:
    """Tokens of before belong to nobody in particular."""
    connection.execute(text("ALTER TABLE tokens ADD COLUMN person TEXT"))


# What an administrator has closed to new work.
closings = Table(
    "closings",
    metadata,
    Column("id", Text, primary_key=True),
    Column("node_id", Text),
    Column("uuid", Text),
    Column("label", Text),
    Column("until", Float),
    Column("note", Text, nullable=False),
    Column("closed_by", Text, nullable=False),
    Column("created_at", Float, nullable=False),
)


def _create_queue(connection: Connection) -> None:
    queue.create(connection, checkfirst=True)


_RESERVATIONS_REVISION = {"name": "reservations_revision", "value": "0"}


def add_reservations(connection: Connection) -> None:
    """Add the tables of reservations."""
    reservations.create(connection, checkfirst=True)
    calendar_feeds.create(connection, checkfirst=True)
    if read_fact(connection, "reservations_revision") is None:
        connection.execute(insert(facts).values(_RESERVATIONS_REVISION))


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    ended_sessions.create,
    _add_person,
    _create_queue,
    closings.create,
    add_reservations,
    add_vouching_node,
)
"""The first migrates version 1 to 2, the next 2 to 3. A new database is created by `metadata`."""


def schema_version() -> int:
    """The schema version of the tables above."""
    return 1 + len(MIGRATIONS)


def initial_facts() -> list[dict[str, str]]:
    """The named values of a new database."""
    return [
        {"name": "schema", "value": str(schema_version())},
        {"name": "session_secret", "value": secrets.token_urlsafe(32)},
        {"name": "credentials_revision", "value": secrets.token_hex(8)},
        _RESERVATIONS_REVISION,
    ]


def open_database(folder: Path) -> Engine:
    """Open the database of a state folder, created or migrated if needed; raise `StateError`."""
    ensure_private_folder(str(folder))
    path = folder / DATABASE_FILE
    try:
        if not path.exists():
            _create(path)
        path.chmod(0o600)  # also an existing file, which others may have been able to read
    except OSError as error:
        raise StateError(f"{path} cannot be used: {error.strerror}") from None
    engine = sqlite_engine(path, _PRAGMAS)
    try:
        _migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def sqlite_engine(path: Path, pragmas: tuple[str, ...]) -> Engine:
    """An engine for a SQLite file whose write transactions take the write lock at their start."""
    url = URL.create("sqlite", database=str(path))
    engine = create_engine(url, connect_args={"timeout": _LOCK_TIMEOUT_SECONDS})
    opened: list[_FileId | None] = []  # the file of the first connection

    def check_file() -> None:
        if opened and _file_id(path) != opened[0]:
            raise StateError(
                f"{path} was moved, removed or replaced: put it back, or restart the hub"
            )

    @event.listens_for(engine, "do_connect")
    def before_connect(*_: object) -> None:
        check_file()  # SQLite would create an empty file

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _entry: ConnectionPoolEntry) -> None:
        if not opened:
            opened.append(_file_id(path))
        connection.isolation_level = None  # no implicit BEGIN by Python: see `begin` below
        for pragma in pragmas:
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "engine_disposed")
    def forget_file(_engine: Engine) -> None:
        opened.clear()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # A transaction that reads first and then writes fails immediately if another one wrote
        # meanwhile, without waiting for the lock: SQLite cannot upgrade its old snapshot.
        writes = connection.get_execution_options().get("writes")
        if writes:
            # SQLite would go on writing to a file that has no name any more: nothing of it would
            # be there after a restart.
            check_file()
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _file_id(path: Path) -> _FileId | None:
    """The identity of a file, as opposed to its name; `None` if there is no such file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


@contextmanager
def read_transaction(engine: Engine) -> Iterator[Connection]:
    """A consistent read of the database; raise `StateError` if it cannot be read."""
    with _translate_errors(engine), engine.connect() as connection:
        yield connection


@contextmanager
def write_transaction(engine: Engine) -> Iterator[Connection]:
    """An atomic change; waits for other writers, and raises `StateError` if it cannot be made."""
    with _translate_errors(engine), engine.execution_options(writes=True).begin() as connection:
        yield connection


def read_fact(connection: Connection, name: str) -> str | None:
    """A value of the table of single named values, `None` if it is not there."""
    return connection.scalar(select(facts.c.value).where(facts.c.name == name))


def migrate_schema(
    connection: Connection,
    database_name: str,
    migrations: Sequence[Callable[[Connection], None]],
    too_new_error: type[StateError] = StateError,
) -> None:
    """Run the migrations that a database lacks; the first one migrates version 1 to 2."""
    version, newest = int(read_fact(connection, "schema") or 0), 1 + len(migrations)
    if version > newest:
        raise too_new_error(
            f"{database_name} is of version {version} and this fleet-smi knows {newest}: "
            "update fleet-smi on this machine"
        )
    for migrate in migrations[version - 1 :]:
        migrate(connection)
    if version < newest:
        set_fact(connection, "schema", str(newest))


def bump_credentials_revision(connection: Connection) -> None:
    """Make a running hub read its tokens and users again at its next refresh.

    To be called in the transaction of the change, so that none is seen without the other.
    """
    set_fact(connection, "credentials_revision", secrets.token_hex(8))


def set_fact(connection: Connection, name: str, value: str) -> None:
    """Set a value of the table of single named values, which is there."""
    connection.execute(update(facts).where(facts.c.name == name).values(value=value))


def _create(path: Path) -> None:
    """Create the database under a temporary name: the final name is never half written."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    os.close(os.open(draft, os.O_CREAT | os.O_EXCL, 0o600))
    engine = sqlite_engine(draft, _PRAGMAS)
    try:
        with write_transaction(engine) as connection:
            metadata.create_all(connection)
            connection.execute(insert(facts), initial_facts())
        # The last connection moves the write-ahead log into the file: only the file is linked.
        engine.dispose()
        # A rename would replace the database of a process that was faster; a link fails.
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was first
    finally:
        engine.dispose()
        draft.unlink()


def _migrate(engine: Engine) -> None:
    path = str(engine.url.database)
    with write_transaction(engine) as connection:
        if not inspect(connection).has_table("facts"):
            raise StateError(f"{path} is not a database of fleet-smi: {_REMEDY}")
        migrate_schema(connection, path, MIGRATIONS)


@contextmanager
def _translate_errors(engine: Engine) -> Iterator[None]:
    try:
        yield
    except IntegrityError:
        raise  # callers handle the constraint that they may violate
    except DBAPIError as error:
        # An extended error code has the primary one in its low byte.
        code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
        remedy = f": {_REMEDY}" if code in CORRUPTION_CODES else ""
        raise StateError(f"{engine.url.database}: {error.orig}{remedy}") from None
