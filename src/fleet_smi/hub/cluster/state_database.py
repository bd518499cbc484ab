"""The shared state of a cluster, in the PostgreSQL server of its history.

It has the tables of a hub's own database (nodes, tokens, users, sessions) and those of the
cluster, in a schema beside that of the history: transactions and unique indexes that one hub
relies on hold for all hubs there.
"""

import secrets
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    DateTime,
    Engine,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    text,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError

from fleet_smi.config.settings import HubSettings
from fleet_smi.errors import StateError, UsageError
from fleet_smi.extras import missing_extra
from fleet_smi.hub import database

_SUFFIX = "_hub"
# A hub that hangs in the middle of a transaction must not keep its locks.
_SESSION_OPTIONS = (
    "SET idle_in_transaction_session_timeout = '10s'",
    "SET lock_timeout = '20s'",
    "SET tcp_keepalives_idle = 20",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 4",
)
_LOCK = text("SELECT pg_advisory_xact_lock(hashtext('fleet-smi state'), hashtext(:schema))")

cluster_metadata = MetaData()
owners = Table(
    "owners",
    cluster_metadata,
    Column("node_id", Text, primary_key=True),
    Column("hub", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
)
leases = Table(
    "leases",
    cluster_metadata,
    Column("name", Text, primary_key=True),
    Column("hub", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False),
)


class SharedState(NamedTuple):
    """The opened database, the name of its schema, and the id of the cluster that it belongs to."""

    engine: Engine
    schema: str
    cluster_id: str


def open_state(settings: HubSettings) -> Engine:
    """Open the database of a hub's nodes, tokens and users: its own, or that of its cluster."""
    if settings.cluster:
        return open_shared_state(settings.history).engine
    return database.open_database(Path(settings.state))


def open_shared_state(url: str | None) -> SharedState:
    """Open the state of a cluster, created or migrated if needed; raise `StateError`."""
    engine = _engine(url)
    try:
        with engine.connect() as connection:
            home = connection.scalar(text("SELECT current_schema()"))
    except DBAPIError as error:
        raise _unavailable(engine, error) from None
    if home is None:
        raise StateError(f"{engine.url.database} has no schema of its own: check its search_path")
    schema = f"{home}{_SUFFIX}"
    _use_schema(engine, schema)
    try:
        with database.write_transaction(engine) as connection:
            cluster_id = _prepare(connection, schema)
    except BaseException:
        engine.dispose()
        raise
    return SharedState(engine, schema, cluster_id)


def read_time(connection: Connection) -> float:
    """The time of the server, in seconds since 1970."""
    return float(connection.scalar(text("SELECT extract(epoch FROM clock_timestamp())")) or 0.0)


def quoted(schema: str) -> str:
    """The name of a schema as it is written in SQL."""
    return '"' + schema.replace('"', '""') + '"'


def _engine(url: str | None) -> Engine:
    if url is None or not url.startswith("postgres"):
        raise UsageError(
            "a cluster needs a PostgreSQL server that all its hubs share: set `hub.history` "
            "to its URL, such as postgresql://fleet@db/fleet"
        )
    try:
        return create_engine(
            make_url(url).set(drivername="postgresql+psycopg"),
            pool_pre_ping=True,
            connect_args=database.SERVER_CONNECT_ARGS,
        )
    except ArgumentError:
        raise UsageError("hub.history is not the URL of a database") from None
    except ImportError:
        raise missing_extra("cluster", "a cluster of hubs") from None


def _use_schema(engine: Engine, schema: str) -> None:
    # Connections from before have the schema of the history.
    engine.dispose()

    @event.listens_for(engine, "connect")
    def prepare(connection: DBAPIConnection, _: object) -> None:
        cursor = connection.cursor()
        for statement in (*_SESSION_OPTIONS, f"SET search_path TO {quoted(schema)}"):
            cursor.execute(statement)
        cursor.close()
        connection.commit()


def _prepare(connection: Connection, schema: str) -> str:
    """Create what is missing; return the id of the cluster."""
    # Hubs that start together wait for the first one.
    connection.execute(_LOCK, {"schema": schema})
    if schema not in inspect(connection).get_schema_names():
        connection.execute(text(f"CREATE SCHEMA {quoted(schema)}"))
    is_new = not inspect(connection).has_table("facts", schema)
    cluster_metadata.create_all(connection)
    if is_new:
        # Not in an older database: its migrations create what it lacks.
        database.metadata.create_all(connection)
        connection.execute(insert(database.facts), database.initial_facts())
    database.migrate_schema(connection, schema, database.MIGRATIONS)
    cluster_id = database.read_fact(connection, "cluster_id")
    if cluster_id is None:
        cluster_id = secrets.token_hex(8)
        row = {"name": "cluster_id", "value": cluster_id}
        connection.execute(insert(database.facts).values(row))
    return cluster_id


def _unavailable(engine: Engine, error: DBAPIError) -> StateError:
    reason = str(error.orig).partition("\n")[0]
    where = engine.url.set(drivername="postgresql")
    return StateError(f"the database of the cluster, {where}, is not available: {reason}")
