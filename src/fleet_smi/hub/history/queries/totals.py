"""What people, nodes and GPUs come to over a range: weeks and days where they fit, else hours."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from operator import add
from typing import Any, Literal, NamedTuple

from sqlalchemy import ColumnElement, Connection, Double, FromClause, Select, Table, func, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from fleet_smi.hub.history.storage.schema import (
    DAY_COLUMNS,
    DAY_SECONDS,
    HOUR_SECONDS,
    SUM_COLUMNS,
    WEEK_SECONDS,
    gpu_days,
    gpu_weeks,
    gpus,
    nodes,
    people,
    person_days,
    person_weeks,
    usage_hours,
)
from fleet_smi.model.fleet import STATES, State
from fleet_smi.model.history import NO_USER, Sums, Usage, Usages

GroupBy = Literal["user", "group", "node", "model", "gpu"]
SumValues = Sequence[float]
BucketRange = tuple[int, int]
"""From when to when."""
_NOTHING = (0.0,) * len(SUM_COLUMNS)
_UNKNOWN_MODEL = "unknown"
_SOMEBODY = usage_hours.c.person.not_in(select(people.c.key).where(people.c.user == NO_USER))


class _Sum(FunctionElement[float]):
    """The sum of a column of doubles that does not depend on the order of the rows.

    Floating-point addition is not associative. SQLite reads these tables in the order of their
    keys, so a plain `sum` is repeatable. PostgreSQL reads rows where they lie, which changes
    with every update, vacuum or plan: there fixed-point numbers are added, which is exact.
    """

    type = Double()
    inherit_cache = True


# About 15 µs or 15 µJ. The largest rows, a week of 16,000 GPUs in joules, still fit in 64 bits.
_FIXED_POINT = 1 << 16


@compiles(_Sum)
def _plain_sum(element: _Sum, compiler: SQLCompiler, **options: Any) -> str:
    return f"sum({compiler.process(element.clauses, **options)})"


@compiles(_Sum, "postgresql")
def _exact_sum(element: _Sum, compiler: SQLCompiler, **options: Any) -> str:
    column = compiler.process(element.clauses, **options)
    units = f"sum(CAST({column} * {_FIXED_POINT} AS BIGINT))"
    return f"(CAST({units} AS DOUBLE PRECISION) / {_FIXED_POINT})"


class _Range(NamedTuple):
    """Whole hours, the whole days among these, and the whole weeks among those."""

    hours: BucketRange
    days: BucketRange
    weeks: BucketRange

    @classmethod
    def around(cls, start: float, end: float) -> "_Range":
        """What is asked for, widened to whole hours."""
        first, last = int(start // HOUR_SECONDS), int(-(-end // HOUR_SECONDS))
        hours = first * HOUR_SECONDS, last * HOUR_SECONDS
        days = _whole(hours, DAY_SECONDS)
        return cls(hours, days, _whole(days, WEEK_SECONDS))


def read_usages(
    connection: Connection, start: float, end: float, by: GroupBy, *, daily: bool
) -> Usages:
    """The sums of a range, widened to whole hours; `daily` are days of UTC."""
    asked = _Range.around(start, end)
    names = _names(connection, by)
    days = range(asked.hours[0] // DAY_SECONDS, -(-asked.hours[1] // DAY_SECONDS))
    added: dict[str, SumValues] = defaultdict(lambda: _NOTHING)
    by_day: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(days))
    for bucket, key, *numbers in _of_days(connection, asked, by, daily=daily):
        added[names[key]] = tuple(map(add, added[names[key]], numbers))
        by_day[names[key]][bucket // DAY_SECONDS - days.start] += numbers[0]
    for key, *numbers in _of_weeks(connection, asked, by):
        added[names[key]] = tuple(map(add, added[names[key]], numbers))
    for bucket, key, *seconds in _days_of_weeks(connection, asked, by) if daily else ():
        first, of_name = bucket // DAY_SECONDS - days.start, by_day[names[key]]
        week = slice(first, first + len(DAY_COLUMNS))
        of_name[week] = map(add, of_name[week], seconds)
    rows = [
        Usage(name=name, sums=_sums(numbers), daily=tuple(by_day[name]) if daily else ())
        for name, numbers in added.items()
        if numbers[0]
    ]
    return Usages(
        start=float(asked.hours[0]),
        end=float(asked.hours[1]),
        by=by,
        rows=tuple(sorted(rows, key=lambda row: (-row.sums.gpu_seconds, row.name))),
        total=_sums([sum(column) for column in zip(*added.values(), strict=True)] or _NOTHING),
        by_state=_by_state(connection, asked),
    )


def _whole(part: BucketRange, seconds: int) -> BucketRange:
    """What of a part is whole; where nothing is, it begins and ends with the part."""
    first, last = -(-part[0] // seconds) * seconds, part[1] // seconds * seconds
    return (first, last) if first < last else (part[1], part[1])


def _beside(whole: BucketRange, outer: BucketRange) -> Iterator[BucketRange]:
    """What of a part is not in the whole, before and after it."""
    for first, last in ((outer[0], whole[0]), (whole[1], outer[1])):
        if first < last:
            yield first, last


def _of_days(connection: Connection, asked: _Range, by: GroupBy, *, daily: bool) -> Iterator[Any]:
    """When something of it began, the key and the sums of people, of all beside whole weeks.

    Where it is not told `daily`, that is any day of it.
    """
    hours = _keyed(by, usage_hours, usage_hours.c.person, usage_hours.c.gpu)
    day = usage_hours.c.bucket // DAY_SECONDS
    for part in _beside(asked.days, asked.hours):
        added = _added_up(usage_hours, *hours, part, day if daily else None).where(_SOMEBODY)
        yield from connection.execute(added).all()
    table = person_days if by in ("user", "group") else gpu_days
    days = _keyed(by, table, table.c.key, table.c.key)
    for part in _beside(asked.weeks, asked.days):
        added = _added_up(table, *days, part, table.c.bucket if daily else None)
        yield from connection.execute(added).all()


def _added_up(
    table: Table,
    key: ColumnElement[Any],
    source: FromClause,
    part: BucketRange,
    day: ColumnElement[int] | None,
) -> Select[Any]:
    """The sums of a part, for each key, and of each day where that is told."""
    added = select(func.min(table.c.bucket), key, *_added(table)).select_from(source)
    within = added.where(_is_in(table, part))
    groups = [key] if day is None else [day, key]
    return within.group_by(*groups).order_by(*groups)


def _of_weeks(connection: Connection, asked: _Range, by: GroupBy) -> Sequence[Any]:
    """The key and the sums of people, of all whole weeks together."""
    table, key, source = _weeks_of(by)
    added = select(key, *_added(table)).select_from(source).where(_is_in(table, asked.weeks))
    return connection.execute(added.group_by(key).order_by(key)).all()


def _days_of_weeks(connection: Connection, asked: _Range, by: GroupBy) -> Sequence[Any]:
    """When each whole week began, the key and the GPU-seconds of its days."""
    table, key, source = _weeks_of(by)
    days = [_Sum(table.c[day]) for day in DAY_COLUMNS]
    added = select(table.c.bucket, key, *days).select_from(source)
    groups = table.c.bucket, key
    added = added.where(_is_in(table, asked.weeks)).group_by(*groups).order_by(*groups)
    return connection.execute(added).all()


def _by_state(connection: Connection, asked: _Range) -> dict[State, float]:
    """The GPU-seconds in each state, of everybody and of nobody."""
    days = select(*[_Sum(person_days.c[state]) for state in STATES])
    found = connection.execute(days.where(_is_in(person_days, asked.days))).one()
    by_state = {state: seconds or 0.0 for state, seconds in zip(STATES, found, strict=True)}
    state = usage_hours.c.state
    hours = select(state, _Sum(usage_hours.c.gpu_seconds)).group_by(state)
    for part in _beside(asked.days, asked.hours):
        for each, seconds in connection.execute(hours.where(_is_in(usage_hours, part))):
            by_state[each] += seconds
    return by_state


def _weeks_of(by: GroupBy) -> tuple[Table, ColumnElement[Any], FromClause]:
    table = person_weeks if by in ("user", "group") else gpu_weeks
    return table, *_keyed(by, table, table.c.key, table.c.key)


def _keyed(
    by: GroupBy, table: Table, person: ColumnElement[int], gpu: ColumnElement[int]
) -> tuple[ColumnElement[Any], FromClause]:
    """What tells whose a row is, and where that is found."""
    if by in ("user", "group"):
        return person, table
    if by == "gpu":
        return gpu, table
    of_gpu = table.join(gpus, gpus.c.key == gpu)
    return (gpus.c.node if by == "node" else gpus.c.model), of_gpu


def _is_in(table: Table, part: BucketRange) -> ColumnElement[bool]:
    return (table.c.bucket >= part[0]) & (table.c.bucket < part[1])


def _added(table: Table) -> list[ColumnElement[float]]:
    return [_Sum(table.c[name]) for name in SUM_COLUMNS]


def _names(connection: Connection, by: GroupBy) -> dict[Any, str]:
    asked: dict[GroupBy, Select[Any, str]] = {
        "user": select(people.c.key, people.c.user),
        "group": select(people.c.key, people.c.group),
        "node": select(nodes.c.key, nodes.c.name),
        "model": select(gpus.c.model, func.coalesce(gpus.c.model, _UNKNOWN_MODEL)).distinct(),
        "gpu": select(gpus.c.key, gpus.c.uuid),
    }
    return dict(connection.execute(asked[by]).all())


def _sums(numbers: SumValues) -> Sums:
    return Sums(**dict(zip(SUM_COLUMNS, numbers, strict=True)))
