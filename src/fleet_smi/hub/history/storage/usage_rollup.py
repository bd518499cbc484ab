"""Hours of usage written down, and with them the days and weeks that are their sums.

An hour is told again and again as it grows, so its day and week grow by what is new of it.
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
_GPUS_AT_ONCE = 500
_GPU: Literal[1] = 1  # where they stand in a key
_PERSON: Literal[2] = 2
_NOTHING = (0.0,) * len(SUM_COLUMNS)
_HOUR = upsert_statement(usage_hours)


def write_usage_hours(connection: Connection, rows: list[RowValues]) -> None:
    """Put these hours in the place of what was known of them."""
    if not rows:
        return
    new = {tuple(row[name] for name in _KEY): row for row in rows}
    nobody = set(connection.scalars(select(people.c.key).where(people.c.user == NO_USER)))
    amounts = list(_amounts(_grown(new, _known(connection, new)), nobody))
    execute_bulk(connection, _HOUR, list(new.values()))
    for statement, longer in _LONGER:
        execute_bulk(connection, statement, longer.rows(amounts))


def _known(connection: Connection, keys: Iterable[UsageKey]) -> dict[UsageKey, SumValues]:
    """What stands there of these hours."""
    gpus: dict[int, list[int]] = defaultdict(list)
    for bucket, gpu, _, _ in keys:
        gpus[bucket].append(gpu)
    found: dict[UsageKey, SumValues] = {}
    for bucket, of_bucket in gpus.items():
        for first in range(0, len(of_bucket), _GPUS_AT_ONCE):
            some = usage_hours.c.gpu.in_(of_bucket[first : first + _GPUS_AT_ONCE])
            asked = select(usage_hours).where(usage_hours.c.bucket == bucket, some)
            for row in connection.execute(asked):
                found[row[0], row[1], row[2], row[3]] = tuple(row[4:])
    return found


def _grown(
    new: dict[UsageKey, RowValues], known: dict[UsageKey, SumValues]
) -> Iterator[UsageDelta]:
    for key, row in new.items():
        numbers = tuple(row[name] for name in SUM_COLUMNS)
        yield key, tuple(map(sub, numbers, known.get(key, _NOTHING)))


def _amounts(
    grown: Iterable[UsageDelta], nobody: set[int]
) -> Iterator[tuple[UsageKey, ColumnSums]]:
    """What each hour adds to the days and weeks that it is part of, by the names of columns."""
    for key, numbers in grown:
        of_people = _NOTHING if key[_PERSON] in nobody else numbers
        day = DAY_COLUMNS[key[0] // DAY_SECONDS % len(DAY_COLUMNS)]
        sums = dict(zip(SUM_COLUMNS, of_people, strict=True))
        yield key, {**sums, key[3]: numbers[0], day: of_people[0]}


class _Longer(NamedTuple):
    """A table with the sums of so many seconds, for one part of the key of an hour."""

    table: Table
    seconds: int
    part: Literal[1, 2]

    def rows(self, amounts: Iterable[tuple[UsageKey, ColumnSums]]) -> list[RowValues]:
        """What its rows grow by."""
        names = [column.name for column in self.table.columns if not column.primary_key]
        rows: dict[tuple[int, int], ColumnSums] = defaultdict(lambda: dict.fromkeys(names, 0.0))
        for key, each in amounts:
            row = rows[key[0] // self.seconds * self.seconds, key[self.part]]
            for name in row.keys() & each.keys():
                row[name] += each[name]
        return [{"bucket": bucket, "key": key, **row} for (bucket, key), row in rows.items()]


_LONGER = tuple(
    (increment_statement(each.table), each)
    for each in (
        _Longer(person_days, DAY_SECONDS, _PERSON),
        _Longer(gpu_days, DAY_SECONDS, _GPU),
        _Longer(person_weeks, WEEK_SECONDS, _PERSON),
        _Longer(gpu_weeks, WEEK_SECONDS, _GPU),
    )
)
