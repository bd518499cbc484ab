"""Partitions of the large tables in PostgreSQL, by time: expired ones are dropped as a whole.

A partition is created ahead of its time, or before the first row that needs it. The default
partition of a table has the rows that have none: those from before there were partitions, and
those few that outlive theirs. SQLite has no partitions.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct
from sqlalchemy import Connection, MetaData, Table, inspect, text

from fleet_smi.hub.database import read_fact
from fleet_smi.hub.history.recording.rows import WriteBatch
from fleet_smi.hub.history.series.codec import GRAINS
from fleet_smi.hub.history.series.strip_samples import SAMPLE_INTERVALS
from fleet_smi.hub.history.storage import schema
from fleet_smi.hub.history.storage.schema import DAY_SECONDS, HOUR_SECONDS, WEEK_SECONDS
from fleet_smi.model.history import Period

_MONTH_SECONDS = 4 * WEEK_SECONDS
# About a sixth of the default retention, or less: that is how much longer rows may stay.
_SERIES_WIDTHS: dict[int | None, int] = dict(
    zip(GRAINS, (HOUR_SECONDS, DAY_SECONDS, WEEK_SECONDS, _MONTH_SECONDS), strict=True)
)
_LOCK_CLASS = 0x666C6566  # one more than that of the writer's lock
# Waits at most for so long for a reader, and with it all readers that come later.
_PREPARE = (
    "SET LOCAL lock_timeout = '10s'",
    # Skips reading a default partition whose constraint says that it has no such rows.
    "SET LOCAL constraint_exclusion = on",
    f"SELECT pg_advisory_xact_lock({_LOCK_CLASS}, current_schema()::regnamespace::oid::int)",
)
_SELECT_NAMES = text(
    "SELECT parent.relname, child.relname FROM pg_inherits"
    " JOIN pg_class parent ON parent.oid = inhparent JOIN pg_class child ON child.oid = inhrelid"
    " WHERE parent.relkind = 'p' AND parent.relnamespace = current_schema()::regnamespace"
)
_CONSTRAINT = "before_partitions"
_MAX_SAMPLE_PARTITIONS = 26
_FIRST_STARTS = "first_partitions"
PartitionKey = tuple[str, int | None]
"""The name of a table, and a grain."""
_decode_starts = msgspec.json.Decoder(list[tuple[PartitionKey, int]]).decode


class Partitioning(Struct, frozen=True):
    """How a table is partitioned: by a time column, within each grain if it has any.

    `widths` are the seconds of a partition, by grain; the grain is `None` in a table without.
    """

    table: Table
    time_column: str
    widths: dict[int | None, int]

    @property
    def default_name(self) -> str:
        return f"{self.table.name}_default"

    @property
    def default(self) -> Table:
        """The default partition as a table of its own."""
        return self.table.to_metadata(MetaData(), name=self.default_name)

    def partition_at(self, grain: int | None, at: float) -> "Partition":
        """The partition that a row belongs to."""
        width = self.widths[grain]
        start = int(at // width) * width
        return Partition(self.table.name, grain, start, start + width)

    def _literal(self, grain: int | None, at: int) -> str:
        return f"({at})" if grain is None else f"({grain}, {at})"

    def bounds(self, partition: "Partition") -> str:
        """The range of a partition, as in SQL."""
        grain, start, end = partition.grain, partition.start, partition.end
        return f"FROM {self._literal(grain, start)} TO {self._literal(grain, end)}"

    def condition(self, partition: "Partition") -> str:
        """Which rows belong to a partition, as in SQL."""
        column = self.time_column
        within = f'"{column}" >= {partition.start} AND "{column}" < {partition.end}'
        return within if partition.grain is None else f"grain = {partition.grain} AND {within}"

    def upper_bound(self, grain: int | None, at: int) -> str:
        """The constraint that rows of a grain lie before a time, as in SQL."""
        before = f'"{self.time_column}" < {at}'
        return before if grain is None else f"grain <> {grain} OR {before}"


class Partition(NamedTuple):
    """One partition: the rows of a table, of one grain, from `start` to before `end`."""

    table: str
    grain: int | None
    start: int
    end: int

    @property
    def name(self) -> str:
        grain = "" if self.grain is None else f"{self.grain}_"
        return f"{self.table}_{grain}{self.start}_{self.end}"


SERIES = Partitioning(schema.series, "start", _SERIES_WIDTHS)
SAMPLES = Partitioning(schema.samples, "bucket", dict.fromkeys(SAMPLE_INTERVALS, _MONTH_SECONDS))
USAGE_HOURS = Partitioning(schema.usage_hours, "bucket", {None: WEEK_SECONDS})
PERIODS = Partitioning(schema.periods, "start", {None: WEEK_SECONDS})
OCCUPANCIES = Partitioning(schema.occupancies, "start", {None: WEEK_SECONDS})
PARTITIONINGS = (SERIES, SAMPLES, USAGE_HOURS, PERIODS, OCCUPANCIES)
BY_TABLE = {each.table.name: each for each in PARTITIONINGS}


def partitions_of(batch: WriteBatch) -> set[Partition]:
    """The partitions that the rows of a batch belong to."""
    # Times first, which many rows have in common.
    series = {(row.grain_seconds, row.start) for row in batch.series}
    needed = {SERIES.partition_at(grain, start) for grain, start in series}
    needed.update(USAGE_HOURS.partition_at(None, at) for at in {row.hour for row in batch.usage})
    needed.update(OCCUPANCIES.partition_at(None, row.start) for _, row in batch.occupancies)
    for _, period in batch.periods:
        needed.add(PERIODS.partition_at(None, period.start))
        needed.update(_sample_partitions(period))
    return needed


def _sample_partitions(period: Period) -> Iterator[Partition]:
    """Those of the samples of a period, which has some in every bucket up to its end."""
    end = period.start if period.end is None else period.end
    for grain, width in SAMPLES.widths.items():
        # Not of decades, which only a clock that was wrong can give: the default one has those.
        first = max(period.start, end - _MAX_SAMPLE_PARTITIONS * width)
        start = SAMPLES.partition_at(grain, first).start
        yield from (SAMPLES.partition_at(grain, at) for at in range(start, int(end) + 1, width))


def partitions_ahead(now: float) -> set[Partition]:
    """The partitions of this time and the next ones."""
    return {
        each.partition_at(grain, at)
        for each in PARTITIONINGS
        for grain, width in each.widths.items()
        for at in (now, now + width)
    }


def read_partitions(connection: Connection) -> set[Partition]:
    """All partitions but the default ones."""
    return {
        partition
        for table, name in connection.execute(_SELECT_NAMES)
        if (partition := _parse_name(table, name)) is not None
    }


def read_first_starts(connection: Connection) -> dict[PartitionKey, int]:
    """From when on a table that was filled before has partitions; what is older has none."""
    stored = read_fact(connection, _FIRST_STARTS)
    return {} if stored is None else dict(_decode_starts(stored))


def create_partition(connection: Connection, partition: Partition) -> None:
    """Create a partition unless it exists; another hub may do the same now."""
    _prepare(connection)
    if partition in read_partitions(connection):
        return
    partitioning = BY_TABLE[partition.table]
    name, parent, default = partition.name, partition.table, partitioning.default_name
    moved = f"DELETE FROM {default} WHERE {partitioning.condition(partition)} RETURNING *"  # noqa: S608  # our own names
    bounds = partitioning.bounds(partition)
    for statement in (
        f"CREATE TABLE {name} (LIKE {parent} INCLUDING DEFAULTS INCLUDING INDEXES)",
        f"WITH moved AS ({moved}) INSERT INTO {name} SELECT * FROM moved",  # noqa: S608  # our own names
        f"ALTER TABLE {parent} ATTACH PARTITION {name} FOR VALUES {bounds}",
    ):
        connection.execute(text(statement))


def drop_partition(connection: Connection, partition: Partition, outlives: str | None) -> None:
    """Drop a partition; rows that meet the condition `outlives` are moved to the default one."""
    _prepare(connection)
    if partition not in read_partitions(connection):
        return  # another hub has dropped it
    name, parent = partition.name, partition.table
    connection.execute(text(f"ALTER TABLE {parent} DETACH PARTITION {name}"))
    if outlives is not None:
        default = BY_TABLE[parent].default_name
        # They are later than what was there before; by now that is little, if any.
        connection.execute(text(f"ALTER TABLE {default} DROP CONSTRAINT IF EXISTS {_CONSTRAINT}"))
        copy = f"INSERT INTO {parent} SELECT * FROM {name} WHERE {outlives}"  # noqa: S608  # our own names
        connection.execute(text(copy))
    connection.execute(text(f"DROP TABLE {name}"))


def create_default_partitions(connection: Connection) -> None:
    """Create the default partitions of new tables."""
    for each in PARTITIONINGS:
        statement = f"CREATE TABLE {each.default_name} PARTITION OF {each.table.name} DEFAULT"
        connection.execute(text(statement))


def partition_tables(connection: Connection) -> None:
    """Make the tables of an older schema partitioned; their rows become the default partition.

    Nothing is copied: each table is read once, to check the constraint by which PostgreSQL knows
    that none of its rows belongs to a new partition.
    """
    first_starts: list[tuple[PartitionKey, int]] = []
    for each in PARTITIONINGS:
        first_starts += _partition_table(connection, each).items()
    value = msgspec.json.encode(first_starts).decode()
    connection.execute(schema.facts.insert(), {"name": _FIRST_STARTS, "value": value})


def _partition_table(connection: Connection, each: Partitioning) -> dict[PartitionKey, int]:
    table, default = each.table.name, each.default_name
    seen = inspect(connection)
    names = [index["name"] for index in seen.get_indexes(table)]
    names.append(seen.get_pk_constraint(table)["name"])
    connection.execute(text(f"ALTER TABLE {table} RENAME TO {default}"))
    # Names of indexes are unique in a schema, and the new table has the same ones.
    for name in names:
        connection.execute(text(f"ALTER INDEX {name} RENAME TO {name}_default"))
    starts = dict(_first_starts(connection, each))
    if starts:
        bounds = " AND ".join(
            f"({each.upper_bound(grain, start)})" for (_, grain), start in starts.items()
        )
        check = f"ADD CONSTRAINT {_CONSTRAINT} CHECK ({bounds})"
        connection.execute(text(f"ALTER TABLE {default} {check}"))
    each.table.create(connection)
    connection.execute(text(f"ALTER TABLE {table} ATTACH PARTITION {default} DEFAULT"))
    return starts


def _first_starts(connection: Connection, each: Partitioning) -> Iterator[tuple[PartitionKey, int]]:
    """When the first partition of each grain begins: after all that is stored."""
    for grain in each.widths:
        of_grain = "" if grain is None else f" WHERE grain = {grain}"
        # By an index: of periods and occupancies there is one of their ends, which are later.
        column = "end" if "end" in each.table.c else each.time_column
        query = f'SELECT max("{column}") FROM {each.default_name}{of_grain}'  # noqa: S608  # our own names
        last = connection.scalar(text(query))
        if last is not None:
            yield (str(each.table.name), grain), each.partition_at(grain, last).end
        elif grain is not None:
            # There may be rows of other grains, which need not be read for this one.
            yield (str(each.table.name), grain), 0


def _prepare(connection: Connection) -> None:
    for statement in _PREPARE:
        connection.execute(text(statement))


def _parse_name(table: str, name: str) -> Partition | None:
    numbers = name.removeprefix(f"{table}_").split("_")
    if table not in BY_TABLE or not all(map(str.isdecimal, numbers)):
        return None  # a default partition, or a table of somebody else
    *grain, start, end = map(int, numbers)
    return Partition(table, grain[0] if grain else None, start, end)
