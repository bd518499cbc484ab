"""Hours of usage written down, and with them the days and weeks that are their sums.

An hour is told again and again as it grows, so its day and week grow by what is new of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import sub
from typing import Literal, NamedTuple

from sqlalchemy import Connection, Table, select

from fleet_smi.hub.history.schema import (
    DAY_SECONDS,
    DAYS,
    SUMS,
    WEEK_SECONDS,
    adding,
    gpu_days,
    gpu_weeks,
    people,
    person_days,
    person_weeks,
    usage_hours,
    writing_again,
)
from fleet_smi.hub.history.statements import Row, execute
from fleet_smi.model.history import NOBODY

Key = tuple[int, int, int, str]
Numbers = tuple[float, ...]
Grown = tuple[Key, Numbers]
Amounts = dict[str, float]
_KEY = ("bucket", "gpu", "person", "state")
_GPUS_AT_ONCE = 500
_GPU: Literal[1] = 1  # where they stand in a key
_PERSON: Literal[2] = 2
_NOTHING = (0.0,) * len(SUMS)
_HOUR = writing_again(usage_hours)


def write_hours(connection: Connection, rows: list[Row]) -> None:
    """Put these hours in the place of what was known of them."""
    if not rows:
        return
    new = {tuple(row[name] for name in _KEY): row for row in rows}
    nobody = set(connection.scalars(select(people.c.key).where(people.c.user == NOBODY)))
    amounts = list(_amounts(_grown(new, _known(connection, new)), nobody))
    execute(connection, _HOUR, list(new.values()))
    for statement, longer in _LONGER:
        execute(connection, statement, longer.rows(amounts))


def _known(connection: Connection, keys: Iterable[Key]) -> dict[Key, Numbers]:
    """What stands there of these hours."""
    gpus: dict[int, list[int]] = defaultdict(list)
    for bucket, gpu, _, _ in keys:
        gpus[bucket].append(gpu)
    found: dict[Key, Numbers] = {}
    for bucket, of_bucket in gpus.items():
        for first in range(0, len(of_bucket), _GPUS_AT_ONCE):
            some = usage_hours.c.gpu.in_(of_bucket[first : first + _GPUS_AT_ONCE])
            asked = select(usage_hours).where(usage_hours.c.bucket == bucket, some)
            for row in connection.execute(asked):
                found[row[0], row[1], row[2], row[3]] = tuple(row[4:])
    return found


def _grown(new: dict[Key, Row], known: dict[Key, Numbers]) -> Iterator[Grown]:
    for key, row in new.items():
        numbers = tuple(row[name] for name in SUMS)
        yield key, tuple(map(sub, numbers, known.get(key, _NOTHING)))


def _amounts(grown: Iterable[Grown], nobody: set[int]) -> Iterator[tuple[Key, Amounts]]:
    """What each hour adds to the days and weeks that it is part of, by the names of columns."""
    for key, numbers in grown:
        of_people = _NOTHING if key[_PERSON] in nobody else numbers
        day = DAYS[key[0] // DAY_SECONDS % len(DAYS)]
        sums = dict(zip(SUMS, of_people, strict=True))
        yield key, {**sums, key[3]: numbers[0], day: of_people[0]}


class _Longer(NamedTuple):
    """A table with the sums of so many seconds, for one part of the key of an hour."""

    table: Table
    seconds: int
    part: Literal[1, 2]

    def rows(self, amounts: Iterable[tuple[Key, Amounts]]) -> list[Row]:
        """What its rows grow by."""
        names = [column.name for column in self.table.columns if not column.primary_key]
        rows: dict[tuple[int, int], Amounts] = defaultdict(lambda: dict.fromkeys(names, 0.0))
        for key, each in amounts:
            row = rows[key[0] // self.seconds * self.seconds, key[self.part]]
            for name in row.keys() & each.keys():
                row[name] += each[name]
        return [{"bucket": bucket, "key": key, **row} for (bucket, key), row in rows.items()]


_LONGER = tuple(
    (adding(each.table), each)
    for each in (
        _Longer(person_days, DAY_SECONDS, _PERSON),
        _Longer(gpu_days, DAY_SECONDS, _GPU),
        _Longer(person_weeks, WEEK_SECONDS, _PERSON),
        _Longer(gpu_weeks, WEEK_SECONDS, _GPU),
    )
)
