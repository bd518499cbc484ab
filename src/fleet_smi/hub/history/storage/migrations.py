"""Migrations of the history database from older schema versions."""

from collections.abc import Callable

from sqlalchemy import Connection, MetaData, Table, inspect, text

from fleet_smi.errors import StateError
from fleet_smi.hub.database import migrate_schema, read_fact
from fleet_smi.hub.history.series.layout import FIRST_LAYOUT, encode_layout
from fleet_smi.hub.history.storage import partitions, schema, strip_sample_rows
from fleet_smi.hub.history.storage.schema import (
    DAY_COLUMNS,
    DAY_SECONDS,
    SUM_COLUMNS,
    WEEK_SECONDS,
    facts,
    metadata,
)
from fleet_smi.model.fleet import STATES

_SCHEMA = "schema"


class IncompatibleDatabase(StateError):
    """The database belongs to a newer fleet-smi or to another program; it is not changed."""


def _to_version_2(connection: Connection) -> None:
    """Add strip samples, the load of each period, and weekly usage."""
    connection.execute(text("ALTER TABLE periods ADD COLUMN busy_percent DOUBLE PRECISION"))
    connection.execute(text("DROP INDEX periods_as_they_look"))
    schema.PERIODS_LOOK_INDEX.create(connection)
    # PostgreSQL keeps its index: see `OCCUPANCIES_PERSON_INDEX`.
    if connection.dialect.name == "sqlite":
        connection.execute(text("DROP INDEX occupancies_of_person"))
        schema.OCCUPANCIES_PERSON_INDEX.create(connection)
    for table in (schema.looks, schema.samples, schema.person_weeks, schema.gpu_weeks):
        _create_unpartitioned(connection, table)
    for state in STATES:
        connection.execute(text(f"ALTER TABLE gpu_days DROP COLUMN {state}"))
    for key in ("person", "gpu"):
        connection.execute(text(_weekly_usage_sql(key)))
    strip_sample_rows.backfill_samples(connection)


def _to_version_3(connection: Connection) -> None:
    """Store the figures of each layout; existing rows all have the first layout."""
    figures = encode_layout(FIRST_LAYOUT)
    if connection.dialect.name == "postgresql":
        connection.execute(text("ALTER TABLE layouts ADD COLUMN figures TEXT"))
        connection.execute(text("UPDATE layouts SET figures = :figures"), {"figures": figures})
        for change in (
            "ALTER COLUMN figures SET NOT NULL",
            "DROP CONSTRAINT layouts_uuids_key",
            "ADD UNIQUE (uuids, figures)",
        ):
            connection.execute(text(f"ALTER TABLE layouts {change}"))
        return
    # SQLite cannot change constraints: copy the table, which has about one row per node. Keys stay
    # the same, because series rows refer to them.
    connection.execute(text("ALTER TABLE layouts RENAME TO old_layouts"))
    schema.layouts.create(connection)
    copy = text("INSERT INTO layouts SELECT key, uuids, :figures FROM old_layouts")
    connection.execute(copy, {"figures": figures})
    connection.execute(text("DROP TABLE old_layouts"))


def _to_version_4(connection: Connection) -> None:
    """Index the layouts of series rows, so that those without rows can be deleted."""
    schema.SERIES_LAYOUT_INDEX.create(connection)


def _to_version_5(connection: Connection) -> None:
    """Partition the large tables by time; in SQLite nothing changes."""
    if connection.dialect.name == "postgresql":
        partitions.partition_tables(connection)


def _create_unpartitioned(connection: Connection, table: Table) -> None:
    """Create a table as it was before version 5."""
    plain = table.to_metadata(MetaData())
    plain.dialect_options["postgresql"]["partition_by"] = None
    plain.create(connection)


def _weekly_usage_sql(key: str) -> str:
    sums = [f"sum({name})" for name in SUM_COLUMNS]
    # Buckets are integers, so `/` rounds down in both databases.
    day = f"bucket / {DAY_SECONDS} % {len(DAY_COLUMNS)}"
    by_day = [
        f"sum(CASE WHEN {day} = {n} THEN gpu_seconds ELSE 0 END)" for n in range(len(DAY_COLUMNS))
    ]
    week = f"bucket / {WEEK_SECONDS} * {WEEK_SECONDS}"
    return (
        f"INSERT INTO {key}_weeks SELECT {week}, key, {', '.join([*sums, *by_day])}"  # noqa: S608  # our own names
        f" FROM {key}_days GROUP BY 1, 2"
    )


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    _to_version_2,
    _to_version_3,
    _to_version_4,
    _to_version_5,
)
"""Steps from version 1 to 2, 2 to 3, and so on. A new database is created from `metadata`."""


def schema_version() -> int:
    """The schema version of a new database."""
    return 1 + len(MIGRATIONS)


def migrate(connection: Connection, name: str) -> None:
    """Create the tables or bring an older schema up to date; raise `IncompatibleDatabase`."""
    tables = inspect(connection).get_table_names()
    if not tables:
        metadata.create_all(connection)
        if connection.dialect.name == "postgresql":
            partitions.create_default_partitions(connection)
        connection.execute(facts.insert(), {"name": _SCHEMA, "value": str(schema_version())})
        return
    if facts.name not in tables or read_fact(connection, _SCHEMA) is None:
        raise IncompatibleDatabase(
            f"{name} is not a fleet-smi history: set `hub.history` to a database of its own"
        )
    migrate_schema(connection, name, MIGRATIONS, too_new_error=IncompatibleDatabase)
