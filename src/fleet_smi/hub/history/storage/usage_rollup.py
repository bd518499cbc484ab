"""Usage rollup: write hourly usage, and add it to the daily and weekly sums.

An hour is written repeatedly while it grows, so its day and week grow by the difference.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import sub
from typing import Literal, NamedTuple

from sqlalchemy import Connection, Table, select

from fleet_smi.hub.history.storage.bulk import RowValues, execute_bulk
from fleet_smi.hub.history.storage.schema import (
    DAY_COLUMNS,
    DAY_SECONDS,
    SUM_COLUMNS,
    WEEK_SECONDS,
    gpu_days,
    gpu_weeks,
    increment_statement,
    people,
    person_days,
    person_weeks,
    upsert_statement,
    usage_hours,
)
from fleet_smi.model.history import NO_USER

UsageKey = tuple[int, int, int, str]
SumValues = tuple[float, ...]
UsageDelta = tuple[UsageKey, SumValues]
ColumnSums = dict[str, float]
_KEY = ("bucket", "gpu", "person", "state")
_GPUS_PER_QUERY = 500  # below the limit of bound parameters, 999 in older versions of SQLite
_GPU: Literal[1] = 1  # positions in a usage key
_PERSON: Literal[2] = 2
_ZEROS = (0.0,) * len(SUM_COLUMNS)
_UPSERT_HOUR = upsert_statement(usage_hours)


def write_usage_hours(connection: Connection, rows: list[RowValues]) -> None:
    """Replace the stored hours by these, and update the days and weeks."""
    if not rows:
        return
    # A batch may have an hour several times. Only the last one counts, else the difference to the
    # stored hour would be added more than once.
    new = {tuple(row[name] for name in _KEY): row for row in rows}
    no_user = set(connection.scalars(select(people.c.key).where(people.c.user == NO_USER)))
    # The stored hours are read before they are replaced.
    increments = list(_increments(_deltas(new, _read_stored(connection, new)), no_user))
    execute_bulk(connection, _UPSERT_HOUR, list(new.values()))
    for statement, rollup in _ROLLUPS:
        execute_bulk(connection, statement, rollup.rows(increments))


def _read_stored(connection: Connection, keys: Iterable[UsageKey]) -> dict[UsageKey, SumValues]:
    """The stored sums of these hours."""
    # Each GPU once, however many users it has had: a query reads all of its rows.
    gpus: dict[int, set[int]] = defaultdict(set)
    for bucket, gpu, _, _ in keys:
        gpus[bucket].add(gpu)
    stored: dict[UsageKey, SumValues] = {}
    for bucket, distinct in gpus.items():
        gpu_ids = sorted(distinct)
        for first in range(0, len(gpu_ids), _GPUS_PER_QUERY):
            chunk = usage_hours.c.gpu.in_(gpu_ids[first : first + _GPUS_PER_QUERY])
            query = select(usage_hours).where(usage_hours.c.bucket == bucket, chunk)
            for row in connection.execute(query):
                stored[row[0], row[1], row[2], row[3]] = tuple(row[4:])
    return stored


def _deltas(
    new: dict[UsageKey, RowValues], stored: dict[UsageKey, SumValues]
) -> Iterator[UsageDelta]:
    for key, row in new.items():
        numbers = tuple(row[name] for name in SUM_COLUMNS)
        yield key, tuple(map(sub, numbers, stored.get(key, _ZEROS)))


def _increments(
    deltas: Iterable[UsageDelta], no_user: set[int]
) -> Iterator[tuple[UsageKey, ColumnSums]]:
    """Amounts that each hour adds to its days and weeks, by column name.

    The time of no user counts in the state columns only.
    """
    for key, numbers in deltas:
        of_users = _ZEROS if key[_PERSON] in no_user else numbers
        day = DAY_COLUMNS[key[0] // DAY_SECONDS % len(DAY_COLUMNS)]
        sums = dict(zip(SUM_COLUMNS, of_users, strict=True))
        yield key, {**sums, key[3]: numbers[0], day: of_users[0]}


class _RollupTarget(NamedTuple):
    """A table of sums per `seconds`, keyed by the GPU or the person of an hour."""

    table: Table
    seconds: int
    key_index: Literal[1, 2]

    def rows(self, increments: Iterable[tuple[UsageKey, ColumnSums]]) -> list[RowValues]:
        """The rows to be added to this table."""
        names = [column.name for column in self.table.columns if not column.primary_key]
        rows: dict[tuple[int, int], ColumnSums] = defaultdict(lambda: dict.fromkeys(names, 0.0))
        for key, columns in increments:
            row = rows[key[0] // self.seconds * self.seconds, key[self.key_index]]
            for name in row.keys() & columns.keys():
                row[name] += columns[name]
        return [{"bucket": bucket, "key": key, **row} for (bucket, key), row in rows.items()]


_ROLLUPS = tuple(
    (increment_statement(target.table), target)
    for target in (
        _RollupTarget(person_days, DAY_SECONDS, _PERSON),
        _RollupTarget(gpu_days, DAY_SECONDS, _GPU),
        _RollupTarget(person_weeks, WEEK_SECONDS, _PERSON),
        _RollupTarget(gpu_weeks, WEEK_SECONDS, _GPU),
    )
)
