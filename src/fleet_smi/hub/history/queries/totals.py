"""Usage totals per user, group, node, model or GPU: from whole weeks and days, else hours."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from math import inf
from operator import add
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Double,
    FromClause,
    Select,
    Table,
    Text,
    case,
    cast,
    func,
    select,
)
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
from fleet_smi.model.node_names import make_names_unique

GroupBy = Literal["user", "group", "node", "model", "gpu"]
SumValues = Sequence[float]
BucketRange = tuple[int, int]
"""The first bucket, and the end after the last one."""
_ZEROS = (0.0,) * len(SUM_COLUMNS)
_UNKNOWN_MODEL = "unknown"
# In days and weeks the time without a user is in the state columns only; hours need a filter.
_HAS_USER = usage_hours.c.person.not_in(select(people.c.key).where(people.c.user == NO_USER))


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


class _Label(NamedTuple):
    """The name of a group in the result, and the node of a GPU."""

    name: str
    node_id: str | None = None


class _BucketRanges(NamedTuple):
    """Whole hours, the whole days among them, and the whole weeks among those."""

    hours: BucketRange
    days: BucketRange
    weeks: BucketRange

    @classmethod
    def around(cls, start: float, end: float, ledger_start: int) -> "_BucketRanges":
        """The ranges for a time span, widened to whole hours, as far as the ledger goes back."""
        # -(-a // b) rounds up.
        first, last = int(start // HOUR_SECONDS), int(-(-end // HOUR_SECONDS))
        end_hour = last * HOUR_SECONDS
        hours = min(max(first * HOUR_SECONDS, ledger_start), end_hour), end_hour
        days = _whole_buckets(hours, DAY_SECONDS)
        return cls(hours, days, _whole_buckets(days, WEEK_SECONDS))


def read_usages(
    connection: Connection,
    start: float,
    end: float,
    by: GroupBy,
    *,
    daily: bool,
    not_before: float = -inf,
) -> Usages:
    """Read the sums of a range, widened to whole hours; `daily` adds those of each UTC day.

    The range is cut where the ledger begins: `not_before`, or later. Days and weeks outlive the
    hours that they begin with, so without the cut their sums would cover more than other figures.
    """
    ledger_start = _ledger_start(connection, not_before)
    ranges = _BucketRanges.around(start, end, ledger_start)
    groups = _groups_by_key(connection, by)
    days = range(ranges.hours[0] // DAY_SECONDS, -(-ranges.hours[1] // DAY_SECONDS))
    totals: dict[str, SumValues] = defaultdict(lambda: _ZEROS)
    by_day: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(days))
    # Several keys may be of one group, such as a user in two of them: add them up by group.
    for bucket, key, *numbers in _read_hours_and_days(connection, ranges, by, daily=daily):
        totals[groups[key]] = tuple(map(add, totals[groups[key]], numbers))
        by_day[groups[key]][bucket // DAY_SECONDS - days.start] += numbers[0]
    for key, *numbers in _read_weeks(connection, ranges, by):
        totals[groups[key]] = tuple(map(add, totals[groups[key]], numbers))
    for bucket, key, *seconds in _read_days_of_weeks(connection, ranges, by) if daily else ():
        first, daily_seconds = bucket // DAY_SECONDS - days.start, by_day[groups[key]]
        week = slice(first, first + len(DAY_COLUMNS))
        daily_seconds[week] = map(add, daily_seconds[week], seconds)
    used = {group: numbers for group, numbers in totals.items() if numbers[0]}
    labels = _labels(connection, by, used)
    rows = [
        Usage(
            name=labels[group].name,
            sums=_sums(numbers),
            daily=tuple(by_day[group]) if daily else (),
            node_id=labels[group].node_id,
        )
        for group, numbers in used.items()
    ]
    return Usages(
        start=float(ranges.hours[0]),
        end=float(ranges.hours[1]),
        by=by,
        rows=tuple(sorted(rows, key=_most_used_first)),
        total=_sums([sum(column) for column in zip(*totals.values(), strict=True)] or _ZEROS),
        by_state=_by_state(connection, ranges),
        history_begins=float(ledger_start) if start < ledger_start else None,
    )


def _ledger_start(connection: Connection, not_before: float) -> int:
    """The first hour that is stored and has not expired."""
    # The hour that contains `not_before` is stored until all of it has expired.
    first = int(max(0.0, not_before) // HOUR_SECONDS) * HOUR_SECONDS
    kept = usage_hours.c.bucket >= first
    return connection.scalar(select(func.min(usage_hours.c.bucket)).where(kept)) or first


def _whole_buckets(outer: BucketRange, seconds: int) -> BucketRange:
    """The whole buckets within a range; where there is none, an empty range at its end."""
    first, last = -(-outer[0] // seconds) * seconds, outer[1] // seconds * seconds
    return (first, last) if first < last else (outer[1], outer[1])


def _remainders(whole: BucketRange, outer: BucketRange) -> Iterator[BucketRange]:
    """Return the parts of `outer` before and after `whole`."""
    for first, last in ((outer[0], whole[0]), (whole[1], outer[1])):
        if first < last:
            yield first, last


def _read_hours_and_days(
    connection: Connection, ranges: _BucketRanges, by: GroupBy, *, daily: bool
) -> Iterator[Any]:
    """Bucket, key and sums of all that lies outside whole weeks.

    Without `daily` all days are added up, and the bucket is the first of them.
    """
    hours = _group_key(by, usage_hours, usage_hours.c.person, usage_hours.c.gpu)
    day = usage_hours.c.bucket // DAY_SECONDS
    for buckets in _remainders(ranges.days, ranges.hours):
        query = _sum_query(usage_hours, *hours, buckets, day if daily else None).where(_HAS_USER)
        yield from connection.execute(query).all()
    table = person_days if by in ("user", "group") else gpu_days
    days = _group_key(by, table, table.c.key, table.c.key)
    for buckets in _remainders(ranges.weeks, ranges.days):
        query = _sum_query(table, *days, buckets, table.c.bucket if daily else None)
        yield from connection.execute(query).all()


def _sum_query(
    table: Table,
    key: ColumnElement[Any],
    source: FromClause,
    buckets: BucketRange,
    day: ColumnElement[int] | None,
) -> Select[Any]:
    """Select the sums of a range for each key, and for each day where a day is given."""
    added = select(func.min(table.c.bucket), key, *_sum_columns(table)).select_from(source)
    within = added.where(_in_range(table, buckets))
    groups = [key] if day is None else [day, key]
    # Ordered, because the caller adds floats: the same range must always give the same sums.
    return within.group_by(*groups).order_by(*groups)


def _read_weeks(connection: Connection, ranges: _BucketRanges, by: GroupBy) -> Sequence[Any]:
    """Key and sums of all whole weeks together."""
    table, key, source = _week_table(by)
    added = (
        select(key, *_sum_columns(table)).select_from(source).where(_in_range(table, ranges.weeks))
    )
    return connection.execute(added.group_by(key).order_by(key)).all()


def _read_days_of_weeks(
    connection: Connection, ranges: _BucketRanges, by: GroupBy
) -> Sequence[Any]:
    """Bucket, key and the GPU-seconds of each day of all whole weeks."""
    table, key, source = _week_table(by)
    days = [_Sum(table.c[day]) for day in DAY_COLUMNS]
    added = select(table.c.bucket, key, *days).select_from(source)
    groups = table.c.bucket, key
    added = added.where(_in_range(table, ranges.weeks)).group_by(*groups).order_by(*groups)
    return connection.execute(added).all()


def _by_state(connection: Connection, ranges: _BucketRanges) -> dict[State, float]:
    """The GPU-seconds in each state, with and without a user."""
    # Only the days of people have state columns, so whole weeks are read as days here.
    days = select(*[_Sum(person_days.c[state]) for state in STATES])
    found = connection.execute(days.where(_in_range(person_days, ranges.days))).one()
    by_state = {state: seconds or 0.0 for state, seconds in zip(STATES, found, strict=True)}
    state = usage_hours.c.state
    hours = select(state, _Sum(usage_hours.c.gpu_seconds)).group_by(state)
    for buckets in _remainders(ranges.days, ranges.hours):
        for name, seconds in connection.execute(hours.where(_in_range(usage_hours, buckets))):
            by_state[name] += seconds
    return by_state


def _week_table(by: GroupBy) -> tuple[Table, ColumnElement[Any], FromClause]:
    table = person_weeks if by in ("user", "group") else gpu_weeks
    return table, *_group_key(by, table, table.c.key, table.c.key)


def _group_key(
    by: GroupBy, table: Table, person: ColumnElement[int], gpu: ColumnElement[int]
) -> tuple[ColumnElement[Any], FromClause]:
    """The column to group by, and the table or join that has it."""
    if by in ("user", "group"):
        return person, table
    if by == "gpu":
        return gpu, table
    of_gpu = table.join(gpus, gpus.c.key == gpu)
    if by == "node":
        return gpus.c.node, of_gpu
    # The model of an instance is its profile: it counts as part of the model of its GPU.
    whole = gpus.alias("whole")
    is_part = (whole.c.node == gpus.c.node) & (whole.c.uuid == gpus.c.parent)
    model = case((gpus.c.parent.is_(None), gpus.c.model), else_=whole.c.model)
    return model, of_gpu.outerjoin(whole, is_part)


def _in_range(table: Table, buckets: BucketRange) -> ColumnElement[bool]:
    return (table.c.bucket >= buckets[0]) & (table.c.bucket < buckets[1])


def _sum_columns(table: Table) -> list[ColumnElement[float]]:
    return [_Sum(table.c[name]) for name in SUM_COLUMNS]


def _groups_by_key(connection: Connection, by: GroupBy) -> dict[Any, str]:
    """The group that the rows of each key are added to: its name, but the id of a node or GPU.

    Two nodes may have one name, and report one UUID: each chooses them itself.
    """
    queries: dict[GroupBy, Select[Any, str]] = {
        "user": select(people.c.key, people.c.user),
        "group": select(people.c.key, people.c.group),
        "node": select(nodes.c.key, nodes.c.node_id),
        # The model is its own key; `None` is a GPU of an unknown one.
        "model": select(gpus.c.model, func.coalesce(gpus.c.model, _UNKNOWN_MODEL)).distinct(),
        "gpu": select(gpus.c.key, cast(gpus.c.key, Text)),
    }
    groups: dict[Any, str] = dict(connection.execute(queries[by]).all())
    return {None: _UNKNOWN_MODEL, **groups} if by == "model" else groups


def _labels(connection: Connection, by: GroupBy, groups: Collection[str]) -> dict[str, _Label]:
    """How each of these groups is shown."""
    if by == "node":
        found = connection.execute(select(nodes.c.node_id, nodes.c.name)).all()
        names = make_names_unique({node_id: name for node_id, name in found if node_id in groups})
        return {node_id: _Label(name) for node_id, name in names.items()}
    if by == "gpu":
        of_node = gpus.join(nodes, nodes.c.key == gpus.c.node)
        query = select(gpus.c.key, gpus.c.uuid, nodes.c.node_id).select_from(of_node)
        rows = connection.execute(query).all()
        return {str(key): _Label(uuid, node_id) for key, uuid, node_id in rows}
    return {group: _Label(group) for group in groups}


def _most_used_first(row: Usage) -> tuple[float, str, str]:
    return -row.sums.gpu_seconds, row.name, row.node_id or ""


def _sums(numbers: SumValues) -> Sums:
    return Sums(**dict(zip(SUM_COLUMNS, numbers, strict=True)))
