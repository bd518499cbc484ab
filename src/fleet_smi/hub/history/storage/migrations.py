"""Which version a database of the history is of, and how an older one is brought up."""

from collections.abc import Callable

from sqlalchemy import Connection, inspect, text

from fleet_smi.errors import StateError
from fleet_smi.hub.database import migrate_schema, read_fact
from fleet_smi.hub.history.storage import schema, strip_sample_rows
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
    """The database is of a newer fleet-smi, or of something else: it is left as it is."""


def _to_2(connection: Connection) -> None:
    """How wide strips look, how busy GPUs were in each period, and weeks of usage."""
    connection.execute(text("ALTER TABLE periods ADD COLUMN busy_percent DOUBLE PRECISION"))
    connection.execute(text("DROP INDEX periods_as_they_look"))
    schema.PERIODS_LOOK_INDEX.create(connection)
    if connection.dialect.name == "sqlite":
        connection.execute(text("DROP INDEX occupancies_of_person"))
        schema.OCCUPANCIES_PERSON_INDEX.create(connection)
    for table in (schema.looks, schema.samples, schema.person_weeks, schema.gpu_weeks):
        table.create(connection)
    for state in STATES:
        connection.execute(text(f"ALTER TABLE gpu_days DROP COLUMN {state}"))
    for key in ("person", "gpu"):
        connection.execute(text(_weeks_of(key)))
    strip_sample_rows.backfill_samples(connection)


def _weeks_of(key: str) -> str:
    sums = [f"sum({name})" for name in SUM_COLUMNS]
    day = f"bucket / {DAY_SECONDS} % {len(DAY_COLUMNS)}"
    each = [
        f"sum(CASE WHEN {day} = {n} THEN gpu_seconds ELSE 0 END)" for n in range(len(DAY_COLUMNS))
    ]
    week = f"bucket / {WEEK_SECONDS} * {WEEK_SECONDS}"
    return (
        f"INSERT INTO {key}_weeks SELECT {week}, key, {', '.join([*sums, *each])}"  # noqa: S608  # our own names
        f" FROM {key}_days GROUP BY 1, 2"
    )


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_to_2,)
"""The first brings version 1 to 2, the next 2 to 3. A new database is made whole, by `metadata`."""


def schema_version() -> int:
    """The version of the tables in `schema`."""
    return 1 + len(MIGRATIONS)


def migrate(connection: Connection, name: str) -> None:
    """Make the tables, or what is missing of them; raise `NotOurs`."""
    tables = inspect(connection).get_table_names()
    if not tables:
        metadata.create_all(connection)
        connection.execute(facts.insert(), {"name": _SCHEMA, "value": str(schema_version())})
        return
    if facts.name not in tables or read_fact(connection, _SCHEMA) is None:
        raise IncompatibleDatabase(
            f"{name} is no history of fleet-smi: give it a database of its own"
        )
    migrate_schema(connection, name, MIGRATIONS, too_new_error=IncompatibleDatabase)
