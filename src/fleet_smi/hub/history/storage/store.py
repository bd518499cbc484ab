"""The history database: an SQLite file beside the hub's own, or a PostgreSQL server.

A damaged file is set aside and an empty one created: it costs the past, never the present.
Commits to the file survive a crash of the hub immediately and a power loss after seconds.
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
from fleet_smi.extras import missing_extra
from fleet_smi.hub.database import CORRUPTION_CODES, SERVER_CONNECT_ARGS, sqlite_engine
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.database_files import (
    create_private_file,
    is_emptied,
    set_aside,
)
from fleet_smi.hub.history.storage.lock import DatabaseLocked, lock_file, require_advisory_lock
from fleet_smi.hub.history.storage.migrations import IncompatibleDatabase, migrate
from fleet_smi.hub.history.storage.partitions import (
    Partition,
    PartitionKey,
    create_partition,
    drop_partition,
    read_first_starts,
    read_partitions,
)
from fleet_smi.hub.history.storage.shared_writes import WriteFence

logger = logging.getLogger(__name__)
HISTORY_FILE = "history.db"
# These are stored in the file. Setting them writes to it, so only a connection that prepares
# the file does: a reader must not wait for a writer.
_FILE_PRAGMAS = ("auto_vacuum=INCREMENTAL", "journal_mode=WAL")
_CONNECTION_PRAGMAS = (
    "synchronous=NORMAL",
    "journal_size_limit=67108864",  # 64 MiB, to which a longer WAL is truncated
    "wal_autocheckpoint=4000",  # hot pages change many times before they are copied once
    "cache_size=-16384",  # negative is KiB: 16 MiB
)
_LOCK_POLL_SECONDS = 0.05
_VACUUM_PAGES = 1024
_SAMPLED_ROWS = 100
_ROW_BYTES = {"sqlite": 24, "postgresql": 100}  # of a series row, without its data
_SQLITE_FREE_BYTES = (
    "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
)
_SQLITE_USED_BYTES = (
    "SELECT (page_count - freelist_count) * page_size"
    " FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
)
_POSTGRESQL_SIZE = (
    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class"
    " WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
)
_POSTGRESQL_SERIES_SIZE = (
    "SELECT coalesce(sum(n_live_tup), 0), coalesce(sum(pg_total_relation_size(relid)), 0)"
    " FROM pg_stat_user_tables"
    " WHERE schemaname = current_schema() AND starts_with(relname, 'series_')"
)


class HistoryStore:
    """The database at one location; usable once `prepare` has succeeded."""

    def __init__(self, location: Path | URL, fence: WriteFence | None = None) -> None:
        self.kind: Literal["sqlite", "postgresql"]
        self.kind = "sqlite" if isinstance(location, Path) else "postgresql"
        self.name = str(location) if isinstance(location, Path) else location.render_as_string()
        """The location as shown to people, without a password."""
        self.damage_message: str | None = None
        """Set when a damaged file was moved away: what happened, for logs and gaps."""
        self._location = location
        self._fence = fence
        self._prepare_lock = threading.Lock()
        self._prepared = False
        self._damaged = False
        self._was_emptied = isinstance(location, Path) and is_emptied(location)
        self._not_ready_message = f"{self.name} is not open yet"
        self._lock_descriptor: int | None = None
        # As of the last change. Another hub may change them too: a row without its partition goes
        # to the default one.
        self._partitions: set[Partition] | None = None if self.kind == "postgresql" else set()
        self._first_partitions: dict[PartitionKey, int] = {}
        self.engine = self._make_engine()
        self._writing_engine = self._make_writing_engine()

    def prepare(self) -> None:
        """Create or migrate the database; raise `StateError`, or its `IncompatibleDatabase`."""
        with self._prepare_lock:
            if self._prepared and not self._damaged:
                return
            try:
                self._migrate()
            except StateError as error:
                if not self._damaged:
                    self._not_ready_message = str(error)
                    raise
                self._replace_damaged()
                self._migrate()

    @contextmanager
    def read_transaction(self) -> Iterator[Connection]:
        """A consistent read; raise `StateError` when the database is not available."""
        if not self._prepared:
            raise StateError(self._not_ready_message)
        with self._transaction(writes=False) as connection:
            yield connection

    @contextmanager
    def write_transaction(self) -> Iterator[Connection]:
        """An atomic change; prepares the store where needed; raise `StateError` if that fails."""
        self.prepare()
        with self._transaction(writes=True) as connection:
            yield connection

    def size_bytes(self) -> int:
        """The size of the database on disk."""
        if isinstance(self._location, Path):
            files = (Path(f"{self._location}{suffix}") for suffix in ("", "-wal"))
            return sum(file.stat().st_size for file in files if file.exists())
        with self.read_transaction() as connection:
            return int(connection.scalar(text(_POSTGRESQL_SIZE)) or 0)

    def free_bytes(self) -> int:
        """The part of the size that is empty and will be reused before the file grows."""
        with self.read_transaction() as connection:
            if self.kind == "sqlite":
                return int(connection.scalar(text(_SQLITE_FREE_BYTES)) or 0)
            rows, used = connection.execute(text(_POSTGRESQL_SERIES_SIZE)).one()
        return max(0, int(used) - int(rows) * self.series_row_bytes())

    def used_bytes(self) -> int:
        """The part of the size that holds rows; what is deleted from SQLite shows at once."""
        if self.kind == "sqlite":
            with self.read_transaction() as connection:
                return int(connection.scalar(text(_SQLITE_USED_BYTES)) or 0)
        return self.size_bytes() - self.free_bytes()

    def series_row_bytes(self) -> int:
        """The approximate size of a series row, from a sample of the newest."""
        data = schema.series.c.data
        newest = select(data).order_by(schema.series.c.grain, schema.series.c.start.desc())
        with self.read_transaction() as connection:
            blobs = connection.scalars(newest.limit(_SAMPLED_ROWS)).all()
        return _ROW_BYTES[self.kind] + sum(map(len, blobs)) // max(1, len(blobs))

    def vacuum_step(self) -> bool:
        """Return free pages to the file system; false where the database cannot do that."""
        if self.kind == "sqlite":
            with self.write_transaction() as connection:
                cursor = connection.connection.cursor()
                cursor.execute(f"PRAGMA incremental_vacuum({_VACUUM_PAGES})")
                cursor.fetchall()  # the statement frees one page per fetched step
        return self.kind == "sqlite"

    def partitions(self) -> set[Partition]:
        """The partitions of its tables; none in SQLite, which has no partitions."""
        if self._partitions is None:
            with self.read_transaction() as connection:
                self._partitions = read_partitions(connection)
                self._first_partitions = read_first_starts(connection)
        return self._partitions

    def create_partitions(self, needed: set[Partition]) -> None:
        """Create partitions that do not exist yet."""
        self.prepare()
        if self.kind == "sqlite":
            return
        missing = needed - self.partitions()
        first = self._first_partitions
        for partition in missing:
            if partition.start >= first.get(partition[:2], partition.start):
                # Each in a transaction of its own: together they would lock tables in another
                # order than readers do.
                with self.write_transaction() as connection:
                    create_partition(connection, partition)
                self._partitions = None

    def drop_partition(self, partition: Partition, outlives: str | None = None) -> int:
        """Drop a partition, but for the rows that meet a condition; return its size in bytes."""
        with self.write_transaction() as connection:
            size = text("SELECT pg_total_relation_size(to_regclass(:name))")
            size_bytes = connection.scalar(size, {"name": partition.name})
            drop_partition(connection, partition, outlives)
        self._partitions = None
        return int(size_bytes or 0)

    def close(self) -> None:
        """Close all connections and release the lock."""
        self.engine.dispose()
        self._writing_engine.dispose()
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
            self._lock_descriptor = None

    @contextmanager
    def _transaction(self, *, writes: bool) -> Iterator[Connection]:
        engine = self._writing_engine if writes else self.engine
        try:
            with engine.execution_options(writes=writes).begin() as connection:
                if writes and self._fence is not None:
                    self._fence.lock_writes(connection)
                yield connection
        except (DataError, IntegrityError):
            raise  # the fault of the data, not of the database: retrying would not help
        except DBAPIError as error:
            # The low byte is the primary result code of SQLite, the rest the extended one.
            code = getattr(error.orig, "sqlite_errorcode", 0) & 0xFF
            self._damaged |= writes and code in CORRUPTION_CODES
            raise StateError(f"{self.name}: {_first_line(error.orig)}") from None
        except SQLAlchemyError as error:
            raise StateError(f"{self.name}: {_first_line(error)}") from None

    def _make_engine(self) -> Engine:
        if isinstance(self._location, Path):
            engine = sqlite_engine(self._location, _CONNECTION_PRAGMAS)
            event.listen(engine, "connect", self._set_up)
            return engine
        return self._make_server_engine(self._location)

    def _make_writing_engine(self) -> Engine:
        """The engine for writing: on a server its only connection holds the lock."""
        if isinstance(self._location, Path):
            return self.engine
        engine = self._make_server_engine(self._location, pool_size=1, max_overflow=0)
        require_advisory_lock(engine, self.name, is_shared=self._fence is not None)
        return engine

    def _make_server_engine(self, url: URL, **pool: int) -> Engine:
        try:
            return create_engine(url, pool_pre_ping=True, connect_args=SERVER_CONNECT_ARGS, **pool)
        except ImportError:
            raise missing_extra("postgres", "a history in PostgreSQL") from None

    def _set_up(self, connection: DBAPIConnection, _: object) -> None:
        for pragma in () if self._prepared else _FILE_PRAGMAS:
            connection.cursor().execute(f"PRAGMA {pragma}")

    def _migrate(self) -> None:
        if isinstance(self._location, Path):
            create_private_file(self._location)
            if self._lock_descriptor is None:  # else an earlier attempt took it
                self._lock_descriptor = lock_file(self._location)
        with self._transaction(writes=True) as connection:
            migrate(connection, self.name)
        self._prepared = True
        if self._was_emptied:
            self._was_emptied = False
            self.damage_message = f"{Path(self.name).name} was empty: what it had is lost"
            logger.error("%s; starting with an empty history", self.damage_message)

    def _replace_damaged(self) -> None:
        """Set a damaged file aside; the next `_migrate` creates an empty one."""
        self.engine.dispose()
        self.damage_message = set_aside(Path(self.name))
        logger.error("%s; starting with an empty history", self.damage_message)
        self.engine = self._writing_engine = self._make_engine()
        self._prepared = self._damaged = False


def open_history(
    location: str | Path, *, lock_timeout_seconds: float = 5.0, fence: WriteFence | None = None
) -> HistoryStore:
    """Open the history in this file or at this URL; raise `StateError` where it is not ours.

    A database that is not available now is opened by a later write. The lock of a hub that was
    just killed may be held a little longer: wait for it up to the timeout.
    """
    store = HistoryStore(_parse_location(location), fence)
    try:
        _prepare(store, time.monotonic() + lock_timeout_seconds)
    except IncompatibleDatabase:
        store.close()
        raise
    except StateError as error:
        logger.warning(
            "history is not available yet, retrying; live data is not affected: %s", error
        )
    return store


def _prepare(store: HistoryStore, deadline: float) -> None:
    while True:
        try:
            return store.prepare()
        except DatabaseLocked:
            if time.monotonic() > deadline:
                raise
            time.sleep(_LOCK_POLL_SECONDS)


def _parse_location(location: str | Path) -> Path | URL:
    if isinstance(location, Path) or location.startswith("/"):
        return Path(location)
    try:
        return make_url(location).set(drivername="postgresql+psycopg")
    except ArgumentError:
        raise UsageError(f"{location!r} is neither a path nor the URL of a database") from None


def _first_line(error: BaseException | None) -> str:
    return str(error).partition("\n")[0]
