"""What people, nodes and GPUs come to over a range: whole days where they fit, else hours."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import add
from typing import Literal, NamedTuple

from sqlalchemy import Connection, CursorResult, Select, Table, case, func, select

from fleet_smi.hub.history.schema import (
    DAY_SECONDS,
    HOUR_SECONDS,
    SUMS,
    gpu_days,
    gpus,
    nodes,
    people,
    person_days,
    usage_hours,
)
from fleet_smi.model.fleet import STATES
from fleet_smi.model.history import NOBODY, Sums, Usage, Usages

By = Literal["user", "group", "node", "model", "gpu"]
Numbers = Sequence[float]
_COLUMNS = (*SUMS, *STATES)
_OF_PEOPLE = slice(len(SUMS))
_UNKNOWN_MODEL = "unknown"


class _Part(NamedTuple):
    """What a key comes to in a day, as far as the range goes, or in all of its whole days."""

    day: int | None
    key: int
    numbers: Numbers


def usages(connection: Connection, start: float, end: float, by: By, *, daily: bool) -> Usages:
    """The sums of a range, widened to whole hours; `daily` are days of UTC."""
    first = int(start // HOUR_SECONDS * HOUR_SECONDS)
    last = int(-(-end // HOUR_SECONDS) * HOUR_SECONDS)
    names = _names(connection, by)
    days = range(first // DAY_SECONDS, -(-last // DAY_SECONDS))
    added: dict[str, Numbers] = defaultdict(lambda: (0.0,) * len(_COLUMNS))
    by_day: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(days))
    for day, key, numbers in _parts(connection, first, last, by):
        name = names[key]
        added[name] = tuple(map(add, added[name], numbers))
        if day is not None:
            by_day[name][day - days.start] += numbers[0]
    for bucket, key, seconds in _daily(connection, first, last, by) if daily else ():
        by_day[names[key]][bucket // DAY_SECONDS - days.start] += seconds
    total = [sum(column) for column in zip(*added.values(), strict=True)] or [0.0] * len(_COLUMNS)
    rows = [
        Usage(name=name, sums=_sums(numbers), daily=tuple(by_day[name]) if daily else ())
        for name, numbers in added.items()
        if numbers[0]
    ]
    return Usages(
        start=float(first),
        end=float(last),
        by=by,
        rows=tuple(sorted(rows, key=lambda row: (-row.sums.gpu_seconds, row.name))),
        total=_sums(total),
        by_state=dict(zip(STATES, total[len(SUMS) :], strict=True)),
    )


def _parts(connection: Connection, first: int, last: int, by: By) -> Iterator[_Part]:
    """The whole days, and the hours before the first and after the last of them."""
    first_day, last_day = _whole_days(first, last)
    if first_day >= last_day:
        yield from _of_hours(connection, first, last, by)
        return
    yield from _of_hours(connection, first, first_day, by)
    yield from _of_days(connection, first_day, last_day, by)
    yield from _of_hours(connection, last_day, last, by)


def _whole_days(first: int, last: int) -> tuple[int, int]:
    return -(-first // DAY_SECONDS) * DAY_SECONDS, last // DAY_SECONDS * DAY_SECONDS


def _of_days(connection: Connection, first: int, last: int, by: By) -> Iterator[_Part]:
    kept = _days_of(by).c
    sums = [func.sum(kept[name]) for name in _COLUMNS]
    asked = select(kept.key, *sums).where(kept.bucket >= first, kept.bucket < last)
    for key, *numbers in connection.execute(asked.group_by(kept.key)):
        yield _Part(None, key, numbers)


def _daily(connection: Connection, first: int, last: int, by: By) -> CursorResult[int, int, float]:
    """The GPU-seconds of each whole day: of many days and GPUs, so nothing else is read."""
    kept, (first_day, last_day) = _days_of(by).c, _whole_days(first, last)
    asked = select(kept.bucket, kept.key, kept.gpu_seconds)
    return connection.execute(asked.where(kept.bucket >= first_day, kept.bucket < last_day))


def _days_of(by: By) -> Table:
    return person_days if by in ("user", "group") else gpu_days


def _of_hours(connection: Connection, first: int, last: int, by: By) -> Iterator[_Part]:
    """Hours of one day, or of two neighbouring ones."""
    if first >= last:
        return
    kept = usage_hours.c
    key = kept.person if by in ("user", "group") else kept.gpu
    nobody = select(people.c.key).where(people.c.user == NOBODY)
    is_nobody = case((kept.person.in_(nobody), 1), else_=0).label("is_nobody")
    day = (kept.bucket // DAY_SECONDS).label("day")
    asked = (
        select(day, key, is_nobody, kept.state, *[func.sum(kept[name]) for name in SUMS])
        .where(kept.bucket >= first, kept.bucket < last)
        .group_by("day", key, "is_nobody", kept.state)
    )
    for at, each, of_nobody, state, *sums in connection.execute(asked):
        of_states = [sums[0] if state == one else 0.0 for one in STATES]
        of_people = [0.0] * len(SUMS) if of_nobody else sums
        yield _Part(at, each, [*of_people, *of_states])


def _names(connection: Connection, by: By) -> dict[int, str]:
    where = gpus.join(nodes, nodes.c.key == gpus.c.node)
    asked: dict[By, Select[int, str]] = {
        "user": select(people.c.key, people.c.user),
        "group": select(people.c.key, people.c.group),
        "node": select(gpus.c.key, nodes.c.name).select_from(where),
        "model": select(gpus.c.key, func.coalesce(gpus.c.model, _UNKNOWN_MODEL)),
        "gpu": select(gpus.c.key, gpus.c.uuid),
    }
    return dict(connection.execute(asked[by]).all())


def _sums(numbers: Numbers) -> Sums:
    return Sums(**dict(zip(SUMS, numbers[_OF_PEOPLE], strict=True)))
