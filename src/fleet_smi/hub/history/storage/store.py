"""The database of what happened: a file beside the hub's own, or a server of PostgreSQL.

A file that is damaged is set aside and a new one begun: it costs the past, never the present.
Commits of the file outlive the hub's death at once, and the machine's within seconds.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, select, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    SQLAlchemyError,
)

from fleet_smi.errors import StateError, UsageError
from fleet_smi.hub.database import CORRUPTION_CODES, sqlite_engine
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.lock import DatabaseLocked, lock_file, require_advisory_lock
from fleet_smi.hub.history.storage.migrations import IncompatibleDatabase, migrate
from fleet_smi.hub.state_folder import chown_to_folder_owner
from fleet_smi.paths import ensure_private_folder

logger = logging.getLogger(__name__)
HISTORY_FILE = "history.db"
# These stay in the file. They write to it: who only reads must not have to wait for a writer.
_LASTING_PRAGMAS = ("auto_vacuum=INCREMENTAL", "journal_mode=WAL")
_PRAGMAS = (
    "synchronous=NORMAL",
    "journal_size_limit=67108864",
    "wal_autocheckpoint=4000",  # many pages are written again before they are copied once
    "cache_size=-16384",
)
_CONNECT_SECONDS = 5
_GLANCE_SECONDS = 0.05
_GIVEN_BACK_PAGES = 1024
_SAMPLED_ROWS = 100
_ROW_BYTES = {"sqlite": 24, "postgresql": 100}  # of a row of the series, beside its data
_FREE_IN_FILE = "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
_SERIES_ON_SERVER = (
    "SELECT n_live_tup, pg_total_relation_size(relid) FROM pg_stat_user_tables"
    " WHERE relid = 'series'::regclass"
)


class HistoryStore:
    """The history at one place; usable once `prepare` has succeeded."""

    def __init__(self, location: Path | URL) -> None:
        self.kind: Literal["sqlite", "postgresql"]
        self.kind = "sqlite" if isinstance(location, Path) else "postgresql"
        self.name = str(location) if isinstance(location, Path) else location.render_as_string()
        """What it is called where people read it: without any password."""
        self.damage_message: str | None = None
        """Why an older file was moved away, in words."""
        self._where = location
        self._ready = threading.Lock()
        self._prepared = False
        self._damaged = False
        self._unready = f"{self.name} is not there yet"
        self._lock: int | None = None
        self.engine = self._made_engine()
        self._writing_engine = self._made_writing_engine()

    def prepare(self) -> None:
        """See that it is there and up to date; raise `StateError`, or `NotOurs`."""
        with self._ready:
            if self._prepared and not self._damaged:
                return
            try:
                self._bring_up_to_date()
            except StateError as error:
                if not self._damaged:
                    self._unready = str(error)
                    raise
                self._begin_anew()
                self._bring_up_to_date()

    @contextmanager
    def read_transaction(self) -> Iterator[Connection]:
        """A look at one moment of it; raise `StateError` when it cannot be had."""
        if not self._prepared:
            raise StateError(self._unready)
        with self._transaction(writes=False) as connection:
            yield connection

    @contextmanager
    def write_transaction(self) -> Iterator[Connection]:
        """A change that is made whole or not at all; prepares the store where needed."""
        self.prepare()
        with self._transaction(writes=True) as connection:
            yield connection

    def size_bytes(self) -> int:
        """What it takes on disk."""
        if isinstance(self._where, Path):
            parts = (Path(f"{self._where}{end}") for end in ("", "-wal"))
            return sum(part.stat().st_size for part in parts if part.exists())
        sizes = " + ".join(f"pg_total_relation_size('{name}')" for name in schema.metadata.tables)
        with self.read_transaction() as connection:
            return int(connection.scalar(text(f"SELECT {sizes}")) or 0)

    def free_bytes(self) -> int:
        """What of that holds nothing, and is used again before it takes more."""
        with self.read_transaction() as connection:
            if self.kind == "sqlite":
                return int(connection.scalar(text(_FREE_IN_FILE)) or 0)
            rows, taken = connection.execute(text(_SERIES_ON_SERVER)).one()
        return max(0, int(taken) - int(rows) * self.series_row_bytes())

    def series_row_bytes(self) -> int:
        """What a row of the series takes, about."""
        data = schema.series.c.data
        newest = select(data).order_by(schema.series.c.grain, schema.series.c.start.desc())
        with self.read_transaction() as connection:
            found = connection.scalars(newest.limit(_SAMPLED_ROWS)).all()
        return _ROW_BYTES[self.kind] + sum(map(len, found)) // max(1, len(found))

    def vacuum_step(self) -> bool:
        """Give a little of what is free back to the file system, where that can be done."""
        if self.kind == "sqlite":
            with self.write_transaction() as connection:
                cursor = connection.connection.cursor()
                cursor.execute(f"PRAGMA incremental_vacuum({_GIVEN_BACK_PAGES})")
                cursor.fetchall()  # each step frees a page
        return self.kind == "sqlite"

    def close(self) -> None:
        """Let go of all connections, and let another hub write."""
        self.engine.dispose()
        self._writing_engine.dispose()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Connection]:
        engine = self._writing_engine if writes else self.engine
        try:
            with engine.execution_options(writes=writes).begin() as connection:
                yield connection
        except (DataError, IntegrityError):
            raise  # no trouble of the database, but of what it was given
        except DBAPIError as error:
            code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
            self._damaged |= writes and code in CORRUPTION_CODES
            raise StateError(f"{self.name}: {_first_line(error.orig)}") from None
        except SQLAlchemyError as error:
            raise StateError(f"{self.name}: {_first_line(error)}") from None

    def _made_engine(self) -> Engine:
        if isinstance(self._where, Path):
            engine = sqlite_engine(self._where, _PRAGMAS)
            event.listen(engine, "connect", self._set_up)
            return engine
        return self._made_server_engine(self._where)

    def _made_writing_engine(self) -> Engine:
        """One for who writes: on a server it has a connection of its own, which holds a lock."""
        if isinstance(self._where, Path):
            return self.engine
        engine = self._made_server_engine(self._where, pool_size=1, max_overflow=0)
        require_advisory_lock(engine, self.name)
        return engine

    def _made_server_engine(self, where: URL, **pool: int) -> Engine:
        given = {"connect_timeout": _CONNECT_SECONDS}
        try:
            return create_engine(where, pool_pre_ping=True, connect_args=given, **pool)
        except ImportError:
            raise UsageError(
                "PostgreSQL is spoken by psycopg, which is not installed: "
                "pip install 'fleet-smi[postgres]'"
            ) from None

    def _set_up(self, connection: DBAPIConnection, _: object) -> None:
        for pragma in () if self._prepared else _LASTING_PRAGMAS:
            connection.cursor().execute(f"PRAGMA {pragma}")

    def _bring_up_to_date(self) -> None:
        if isinstance(self._where, Path):
            _make_private(self._where)
            if self._lock is None:
                self._lock = lock_file(self._where)
        with self._transaction(writes=True) as connection:
            migrate(connection, self.name)
        self._prepared = True

    def _begin_anew(self) -> None:
        """Move a damaged file away."""
        self.engine.dispose()
        self.damage_message = _set_aside(Path(self.name))
        logger.error("%s; a new one is begun", self.damage_message)
        self.engine = self._writing_engine = self._made_engine()
        self._prepared = self._damaged = False


def open_history(location: str | Path, *, lock_timeout_seconds: float = 5.0) -> HistoryStore:
    """The history in this file or behind this URL; raise `StateError` where it is not ours.

    One that cannot be had now is had later: whoever writes tries again. A hub that was killed
    may not be quite dead: that is waited for.
    """
    store = HistoryStore(_place(location))
    try:
        _prepare(store, time.monotonic() + lock_timeout_seconds)
    except IncompatibleDatabase:
        store.close()
        raise
    except StateError as error:
        logger.warning("no history for now; what is shown goes on: %s", error)
    return store


def _prepare(store: HistoryStore, until: float) -> None:
    while True:
        try:
            return store.prepare()
        except DatabaseLocked:
            if time.monotonic() > until:
                raise
            time.sleep(_GLANCE_SECONDS)


def _place(where: str | Path) -> Path | URL:
    if isinstance(where, Path) or where.startswith("/"):
        return Path(where)
    try:
        return make_url(where).set(drivername="postgresql+psycopg")
    except ArgumentError:
        raise UsageError(f"{where!r} is neither a path nor the URL of a database") from None


def _make_private(path: Path) -> None:
    ensure_private_folder(str(path.parent))
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        path.chmod(0o600)
        chown_to_folder_owner(path)
    except OSError as error:
        raise StateError(f"{path} cannot be used: {error.strerror}") from None


def _set_aside(path: Path) -> str:
    """Move a damaged file away with what belongs to it; what was done, in words."""
    aside = f"{path.name}.damaged-{time.strftime('%Y-%m-%dT%H%M%S')}"
    try:
        for end in ("-wal", "-shm", ""):
            part = path.with_name(f"{path.name}{end}")
            if part.exists():
                part.rename(path.with_name(f"{aside}{end}"))
    except OSError as error:
        raise StateError(f"{path} is damaged and stays: {error.strerror}") from None
    return f"{path.name} was damaged and is set aside as {aside}"


def _first_line(error: BaseException | None) -> str:
    return str(error).partition("\n")[0]
