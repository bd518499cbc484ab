"""The tables of what happened, for SQLite and PostgreSQL, and how older ones are brought up.

Only what has ended stands in them, keyed by when it began: a row that is written again
replaces itself. What goes on is kept encoded, a node at a time, in `checkpoints`.
"""

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TextClause,
    UniqueConstraint,
    inspect,
    select,
    text,
)

from fleet_smi.errors import StateError
from fleet_smi.model.fleet import STATES

HOUR_SECONDS, DAY_SECONDS = 3600, 86400
SUMS = ("gpu_seconds", "measured_seconds", "busy_seconds", "idle_seconds", "energy_joules")
_SCHEMA = "schema"

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
layouts = Table(
    "layouts",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("uuids", Text, nullable=False, unique=True),
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
    sqlite_with_rowid=False,
)
Index("periods_by_end", periods.c.end)
# All that a heat strip shows: a week of a large fleet is read without who exactly was there.
LOOKS = (
    periods.c.gpu,
    periods.c.start,
    periods.c.end,
    periods.c.state,
    periods.c.user,
    periods.c.others,
)
Index("periods_as_they_look", *LOOKS)
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
    *(Column(name, Double, nullable=False) for name in SUMS),
    Column("mean_memory_bytes", BigInteger),
    Column("peak_memory_bytes", BigInteger),
    sqlite_with_rowid=False,
)
Index("occupancies_by_end", occupancies.c.end, occupancies.c.start)
Index("occupancies_of_person", occupancies.c.person, occupancies.c.end, occupancies.c.start)
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
# By time first: rows are appended and taken away at the ends of each grain, page by page.
series = Table(
    "series",
    metadata,
    Column("grain", Integer, primary_key=True, autoincrement=False),
    Column("start", BigInteger, primary_key=True, autoincrement=False),
    Column("node", Integer, primary_key=True, autoincrement=False),
    Column("layout", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)


usage_hours = Table(
    "usage_hours",
    metadata,
    Column("bucket", BigInteger, primary_key=True, autoincrement=False),
    Column("gpu", Integer, primary_key=True, autoincrement=False),
    Column("person", Integer, primary_key=True, autoincrement=False),
    Column("state", Text, primary_key=True),
    *(Column(name, Double, nullable=False) for name in SUMS),
    sqlite_with_rowid=False,
)


def _days(name: str) -> Table:
    """The hours of a day added up: what people come to, and the time in each state."""
    return Table(
        name,
        metadata,
        Column("bucket", BigInteger, primary_key=True, autoincrement=False),
        Column("key", Integer, primary_key=True, autoincrement=False),
        *(Column(name, Double, nullable=False) for name in (*SUMS, *STATES)),
        sqlite_with_rowid=False,
    )


person_days = _days("person_days")
gpu_days = _days("gpu_days")
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

MIGRATIONS: tuple[Callable[[Connection], None], ...] = ()
"""The first brings version 1 to 2, the next 2 to 3. A new database is made whole, by `metadata`."""


def version() -> int:
    """The version of the tables above."""
    return 1 + len(MIGRATIONS)


class NotOurs(StateError):
    """The database is of a newer fleet-smi, or of something else: it is left as it is."""


def bring_up_to_date(connection: Connection, name: str) -> None:
    """Make the tables, or what is missing of them; raise `NotOurs`."""
    tables = inspect(connection).get_table_names()
    if not tables:
        metadata.create_all(connection)
        connection.execute(facts.insert(), {"name": _SCHEMA, "value": str(version())})
        return
    found = _found_version(connection) if facts.name in tables else None
    if found is None:
        raise NotOurs(f"{name} is no history of fleet-smi: give it a database of its own")
    if found > version():
        raise NotOurs(
            f"{name} is of version {found} and this fleet-smi knows {version()}: "
            "update fleet-smi on this machine"
        )
    for step in MIGRATIONS[found - 1 :]:
        step(connection)
    if found < version():
        changed = facts.update().where(facts.c.name == _SCHEMA)
        connection.execute(changed.values(value=str(version())))


def _found_version(connection: Connection) -> int | None:
    found = connection.scalar(select(facts.c.value).where(facts.c.name == _SCHEMA))
    return None if found is None else int(found)


def writing_again(table: Table) -> TextClause:
    """Write rows, or replace those of the same key.

    In words: SQLite and PostgreSQL both know them, and SQLAlchemy has no one name for both.
    """
    keys = [column.name for column in table.primary_key]
    return text(_inserted(table, [column.name for column in table.columns], keys))


def naming(table: Table, *, again: bool = True) -> TextClause:
    """Write a row that is found by its name, or `again` what has changed of it; gives its key."""
    (unique,) = (each for each in table.constraints if isinstance(each, UniqueConstraint))
    names = [column.name for column in table.columns if column.name != "key"]
    keys = [column.name for column in unique.columns]
    return text(_inserted(table, names, keys, again=again) + " RETURNING key")


def adding(table: Table) -> TextClause:
    """Write rows, or add their numbers to those of the same key."""
    keys = [column.name for column in table.primary_key]
    names = [column.name for column in table.columns]
    return text(_inserted(table, names, keys, f"{table.name}.{{0}} + excluded.{{0}}"))


def _inserted(
    table: Table,
    names: list[str],
    keys: list[str],
    change: str = 'excluded."{0}"',
    *,
    again: bool = True,
) -> str:
    # Where nothing is to change, the keys are written again, so that the row is given back.
    changed = [name for name in names if again and name not in keys] or keys
    values = ", ".join(f":{name}" for name in names)
    setting = ", ".join(f'"{name}" = {change.format(name)}' for name in changed)
    return (
        f"INSERT INTO {table.name} ({_quoted(names)}) VALUES ({values})"  # noqa: S608  # our own names
        f" ON CONFLICT ({_quoted(keys)}) DO UPDATE SET {setting}"
    )


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)
