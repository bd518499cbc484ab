"""The schema of the history database, for SQLite and PostgreSQL, and its upsert statements.

Rows of intervals are keyed by their start: writing one again replaces it. Intervals that are
still open are in `checkpoints` only, encoded per node.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    text,
)

from fleet_smi.model.fleet import STATES

HOUR_SECONDS, DAY_SECONDS, WEEK_SECONDS = 3600, 86400, 7 * 86400
SUM_COLUMNS = ("gpu_seconds", "measured_seconds", "busy_seconds", "idle_seconds", "energy_joules")
DAY_COLUMNS = tuple(f"day_{number}" for number in range(7))
"""The days of a week that begins on a Thursday, as 1 January 1970 was."""

metadata = MetaData()
facts = Table(
    "facts",
    metadata,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
nodes = Table(
    "nodes",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("node_id", Text, nullable=False, unique=True),
    Column("name", Text, nullable=False),
    Column("labels", Text, nullable=False),
)
gpus = Table(
    "gpus",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("node", Integer, nullable=False),
    Column("uuid", Text, nullable=False),
    Column("index", Integer, nullable=False),
    Column("vendor", Text, nullable=False),
    Column("model", Text),
    Column("memory_total_bytes", BigInteger),
    Column("parent", Text),
    UniqueConstraint("node", "uuid"),
)
people = Table(
    "people",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("user", Text, nullable=False),
    Column("group", Text, nullable=False),
    UniqueConstraint("user", "group"),
)
# How the data of series rows is packed: the GPUs, and the names and encodings of the figures.
layouts = Table(
    "layouts",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("uuids", Text, nullable=False),
    Column("figures", Text, nullable=False),
    UniqueConstraint("uuids", "figures"),
)
periods = Table(
    "periods",
    metadata,
    Column("gpu", Integer, primary_key=True, autoincrement=False),
    Column("start", Double, primary_key=True),
    Column("end", Double, nullable=False),
    Column("certain", Boolean, nullable=False),
    Column("state", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("others", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("holders", LargeBinary),
    Column("busy_percent", Double),
    postgresql_partition_by="RANGE (start)",
    sqlite_with_rowid=False,
)
Index("periods_by_end", periods.c.end)
# A covering index with all that a heat strip shows: reading a day of a large fleet from it
# does not touch the holders.
LOOK_COLUMNS = (
    periods.c.gpu,
    periods.c.start,
    periods.c.end,
    periods.c.state,
    periods.c.user,
    periods.c.others,
    periods.c.busy_percent,
)
PERIODS_LOOK_INDEX = Index("periods_as_they_look", *LOOK_COLUMNS)
looks = Table(
    "looks",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("state", Text, nullable=False),
    Column("user", Text, nullable=False),
    Column("others", Integer, nullable=False),
    UniqueConstraint("state", "user", "others"),
)
# Packed by `strip_samples.py`: weeks of a large fleet are drawn without reading the periods.
samples = Table(
    "samples",
    metadata,
    Column("grain", Integer, primary_key=True, autoincrement=False),
    Column("bucket", BigInteger, primary_key=True, autoincrement=False),
    Column("gpu", Integer, primary_key=True, autoincrement=False),
    Column("looks", LargeBinary, nullable=False),
    Column("loads", LargeBinary, nullable=False),
    postgresql_partition_by="RANGE (grain, bucket)",
    sqlite_with_rowid=False,
)
occupancies = Table(
    "occupancies",
    metadata,
    Column("gpu", Integer, primary_key=True, autoincrement=False),
    Column("start", Double, primary_key=True),
    Column("pid", BigInteger, primary_key=True, autoincrement=False),
    Column("end", Double, nullable=False),
    Column("certain", Boolean, nullable=False),
    Column("person", Integer, nullable=False),
    Column("holder", LargeBinary, nullable=False),
    *(Column(name, Double, nullable=False) for name in SUM_COLUMNS),
    Column("mean_memory_bytes", BigInteger),
    Column("peak_memory_bytes", BigInteger),
    postgresql_partition_by="RANGE (start)",
    sqlite_with_rowid=False,
)
Index("occupancies_by_end", occupancies.c.end, occupancies.c.start)
_OF_PERSON = (occupancies.c.person, occupancies.c.end, occupancies.c.start)
# In SQLite a covering index: all rows of a person lie together in the file. PostgreSQL does
# not take index rows of that length.
OCCUPANCIES_PERSON_INDEX = Index(
    "occupancies_of_person_whole",
    *_OF_PERSON,
    *(column for column in occupancies.c if column not in set(_OF_PERSON)),
).ddl_if(dialect="sqlite")
Index("occupancies_of_person", *_OF_PERSON).ddl_if(dialect="postgresql")
presence = Table(
    "presence",
    metadata,
    Column("node", Integer, primary_key=True, autoincrement=False),
    Column("start", Double, primary_key=True),
    Column("end", Double, nullable=False),
    Column("certain", Boolean, nullable=False),
    sqlite_with_rowid=False,
)
Index("presence_by_end", presence.c.end)
# Keyed by time first: rows are inserted and deleted at the ends of each grain, page by page.
series = Table(
    "series",
    metadata,
    Column("grain", Integer, primary_key=True, autoincrement=False),
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("node", Integer, primary_key=True, autoincrement=False),
    Column("layout", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    postgresql_partition_by="RANGE (grain, start)",
    sqlite_with_rowid=False,
)
# Finds the layouts that no row has any more without reading the rows, which are most of the file.
SERIES_LAYOUT_INDEX = Index("series_by_layout", series.c.layout)


usage_hours = Table(
    "usage_hours",
    metadata,
    Column("bucket", BigInteger, primary_key=True, autoincrement=False),
    Column("gpu", Integer, primary_key=True, autoincrement=False),
    Column("person", Integer, primary_key=True, autoincrement=False),
    Column("state", Text, primary_key=True),
    *(Column(name, Double, nullable=False) for name in SUM_COLUMNS),
    postgresql_partition_by="RANGE (bucket)",
    sqlite_with_rowid=False,
)


def _rollup_table(name: str, *more: str) -> Table:
    """A rollup table of usage sums over days or weeks."""
    return Table(
        name,
        metadata,
        Column("bucket", BigInteger, primary_key=True, autoincrement=False),
        Column("key", Integer, primary_key=True, autoincrement=False),
        *(Column(name, Double, nullable=False) for name in (*SUM_COLUMNS, *more)),
        sqlite_with_rowid=False,
    )


# Days of a person also have the time in each state; weeks have the GPU-seconds of each day.
person_days = _rollup_table("person_days", *STATES)
gpu_days = _rollup_table("gpu_days")
person_weeks = _rollup_table("person_weeks", *DAY_COLUMNS)
gpu_weeks = _rollup_table("gpu_weeks", *DAY_COLUMNS)
moments = Table(
    "moments",
    metadata,
    Column("at", Double, primary_key=True),
    Column("nodes", Integer, nullable=False),
    Column("nodes_reporting", Integer, nullable=False),
    *(Column(state, Double, nullable=False) for state in STATES),
    sqlite_with_rowid=False,
)
gaps = Table(
    "gaps",
    metadata,
    Column("start", Double, primary_key=True),
    Column("end", Double, nullable=False),
    Column("why", Text, nullable=False),
)
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("node", Integer, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)


def upsert_statement(table: Table) -> TextClause:
    """A statement that inserts a row or replaces the one with the same primary key.

    Written as text that SQLite and PostgreSQL both understand: SQLAlchemy has a separate
    construct for each.
    """
    keys = [column.name for column in table.primary_key]
    return text(_insert_sql(table, [column.name for column in table.columns], keys))


def named_upsert_statement(table: Table, *, update: bool = True) -> TextClause:
    """A statement that inserts a row by its unique columns, or updates the row that has them."""
    names = [column.name for column in table.columns if column.name != "key"]
    keys = [column.name for column in unique_columns(table)]
    return text(_insert_sql(table, names, keys, update=update))


def named_select_statement(table: Table) -> TextClause:
    """A query for the key of a row by its unique columns."""
    names = [column.name for column in unique_columns(table)]
    conditions = " AND ".join(f'"{name}" = :{name}' for name in names)
    return text(f'SELECT "key", {_quoted(names)} FROM {table.name} WHERE {conditions}')  # noqa: S608  # our own names


def unique_columns(table: Table) -> list[Column[Any]]:
    """The columns of the only unique constraint of a table."""
    (unique,) = (
        constraint for constraint in table.constraints if isinstance(constraint, UniqueConstraint)
    )
    return list(unique.columns)


def increment_statement(table: Table) -> TextClause:
    """A statement that inserts a row or adds its numbers to the one with the same key."""
    keys = [column.name for column in table.primary_key]
    names = [column.name for column in table.columns]
    return text(_insert_sql(table, names, keys, f"{table.name}.{{0}} + excluded.{{0}}"))


def _insert_sql(
    table: Table,
    names: list[str],
    keys: list[str],
    change: str = 'excluded."{0}"',
    *,
    update: bool = True,
) -> str:
    updated = [name for name in names if update and name not in keys]
    values = ", ".join(f":{name}" for name in names)
    assignments = ", ".join(f'"{name}" = {change.format(name)}' for name in updated)
    action = f"UPDATE SET {assignments}" if updated else "NOTHING"
    return (
        f"INSERT INTO {table.name} ({_quoted(names)}) VALUES ({values})"  # noqa: S608  # our own names
        f" ON CONFLICT ({_quoted(keys)}) DO {action}"
    )


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
