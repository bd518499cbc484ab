"""Hours of usage written down, and their days with them: each day is the sum of its hours.

An hour is told again and again as it grows, so its day grows by what is new of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from operator import add, sub
from typing import Any, Literal

from sqlalchemy import Connection, select

from fleet_smi.hub.history.schema import (
    DAY_SECONDS,
    SUMS,
    adding,
    gpu_days,
    people,
    person_days,
    usage_hours,
    writing_again,
)
from fleet_smi.model.fleet import STATES
from fleet_smi.model.history import NOBODY

Row = dict[str, Any]
Key = tuple[int, int, int, str]
Numbers = tuple[float, ...]
Grown = tuple[Key, Numbers]
_KEY = ("bucket", "gpu", "person", "state")
_GPUS_AT_ONCE = 500
_GPU: Literal[1] = 1  # where they stand in a key
_PERSON: Literal[2] = 2
_COLUMNS = (*SUMS, *STATES)
_NOTHING = (0.0,) * len(SUMS)
_HOUR = writing_again(usage_hours)
_DAY_OF_PERSON, _DAY_OF_GPU = adding(person_days), adding(gpu_days)


def write_hours(connection: Connection, rows: list[Row]) -> None:
    """Put these hours in the place of what was known of them."""
    if not rows:
        return
    new = {tuple(row[name] for name in _KEY): row for row in rows}
    grown = list(_grown(new, _known(connection, new)))
    nobody = set(connection.scalars(select(people.c.key).where(people.c.user == NOBODY)))
    connection.execute(_HOUR, list(new.values()))
    connection.execute(_DAY_OF_PERSON, _days(grown, _PERSON, nobody))
    connection.execute(_DAY_OF_GPU, _days(grown, _GPU, nobody))


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


def _days(grown: list[Grown], place: Literal[1, 2], nobody: set[int]) -> list[Row]:
    """What days grow by, for what stands in this place of the key."""
    days: dict[tuple[int, int], Numbers] = defaultdict(lambda: (0.0,) * len(_COLUMNS))
    for key, numbers in grown:
        day = (key[0] // DAY_SECONDS * DAY_SECONDS, key[place])
        of_people = _NOTHING if key[_PERSON] in nobody else numbers
        of_states = tuple(numbers[0] if key[3] == state else 0.0 for state in STATES)
        days[day] = tuple(map(add, days[day], of_people + of_states))
    return [
        {"bucket": bucket, "key": key, **dict(zip(_COLUMNS, numbers, strict=True))}
        for (bucket, key), numbers in days.items()
    ]
