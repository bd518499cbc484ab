"""SQL of periods: the states of each GPU over time, looked up GPU by GPU."""

from collections.abc import Collection, Iterable
from math import inf
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Row, ScalarSelect, Select, func, select, true

from fleet_smi.hub.history.storage.holder_codec import decode_holders
from fleet_smi.hub.history.storage.schema import gpus, nodes, periods
from fleet_smi.model.history import Period

_RECENT_SECONDS = 14 * 86400.0


def select_last_periods(at: float, *, partitioned: bool = False) -> Select[Any]:
    """The last period of each GPU that began at or before a time; it may have ended."""
    last = _lateral_last_start(at) if partitioned else None
    start = _last_start(at) if last is None else last.c.start
    return _by_gpu((periods.c.gpu == gpus.c.key) & (periods.c.start == start), periods.c, last)


def select_periods(
    start: float,
    end: float,
    node_ids: Collection[str] | None,
    columns: Iterable[ColumnElement[Any]] = periods.c,
    *,
    partitioned: bool = False,
) -> Select[Any]:
    """The periods that overlap a range, by GPU and time.

    Periods of a GPU do not overlap, so the first one is the last that began by `start`: looked
    up by key, which reads no older periods. In PostgreSQL, where the table is `partitioned`, only
    the partitions from that one on are read.
    """
    last = _lateral_last_start(start) if partitioned else None
    first = _last_start(start) if last is None else last.c.start
    # It is null for a GPU that had no period yet, and a comparison with null would drop all of its
    # periods.
    overlapping = (
        (periods.c.gpu == gpus.c.key)
        & (periods.c.start >= func.coalesce(first, start))
        & (periods.c.start < end)
        & (periods.c.end > start)
    )
    query = _by_gpu(overlapping, columns, last)
    by_start = query.selected_columns["start"]
    query = query.order_by(gpus.c.key, by_start)
    if node_ids is None:
        return query
    node_keys = select(nodes.c.key).where(nodes.c.node_id.in_(node_ids))
    return query.where(gpus.c.node.in_(node_keys))


def period_from_row(row: Row[*tuple[Any, ...]]) -> Period:
    """The period in a row of all columns."""
    _, start, end, certain, state, _, _, reason, holders, busy_percent = row
    return Period(
        start=start,
        end=end,
        state=state,
        reason=reason,
        holders=decode_holders(holders) if holders else (),
        certain=certain,
        busy_percent=busy_percent,
    )


def _by_gpu(
    condition: ColumnElement[bool],
    columns: Iterable[ColumnElement[Any]],
    last: FromClause | None,
) -> Select[Any]:
    """Select periods by an outer join: with an inner one SQLite would scan all periods first.

    A GPU without periods has a row in which all columns are null.
    """
    if last is None:
        return select(*columns).select_from(gpus.outerjoin(periods, condition))
    # PostgreSQL looks up one GPU after the other, as SQLite does: whatever it expects of a join,
    # only so can it skip partitions.
    found = select(*columns).where(condition).correlate(gpus, last).offset(0).lateral("found")
    return select(*found.c).select_from(gpus.join(last, true()).outerjoin(found, true()))


def _last_start(at: float, after: float = -inf) -> ScalarSelect[float | None]:
    """The start of the last period of a GPU that began at or before a time, and after another."""
    earlier = periods.alias()
    last = select(func.max(earlier.c.start)).where(
        (earlier.c.gpu == gpus.c.key) & (earlier.c.start <= at)
    )
    last = last if after == -inf else last.where(earlier.c.start > after)
    return last.correlate(gpus).scalar_subquery()


def _lateral_last_start(at: float) -> FromClause:
    """The same for a join, so that it is a plain value in other conditions.

    It is searched in the last weeks, where it is as a rule, and only then in the older partitions.
    """
    recent = at - _RECENT_SECONDS
    start = func.coalesce(_last_start(at, recent), _last_start(recent)).label("start")
    # An offset keeps PostgreSQL from merging it into the conditions.
    return select(start).correlate(gpus).offset(0).lateral("last_start")
