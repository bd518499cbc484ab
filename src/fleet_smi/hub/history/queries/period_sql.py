"""SQL of periods: the states of each GPU over time, looked up GPU by GPU."""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import ColumnElement, Row, ScalarSelect, Select, func, select

from fleet_smi.hub.history.storage.holder_codec import decode_holders
from fleet_smi.hub.history.storage.schema import gpus, nodes, periods
from fleet_smi.model.history import Period


def select_last_periods(at: float) -> Select[Any]:
    """The last period of each GPU that began at or before a time; it may have ended."""
    return _by_gpu((periods.c.gpu == gpus.c.key) & (periods.c.start == _last_start(at)))


def select_periods(
    start: float,
    end: float,
    node_ids: Collection[str] | None,
    columns: Iterable[ColumnElement[Any]] = periods.c,
) -> Select[Any]:
    """The periods that overlap a range, by GPU and time.

    Periods of a GPU do not overlap, so the first one is the last that began by `start`: looked
    up by key, which reads no older periods.
    """
    # `_last_start` is null for a GPU that had no period yet, and a comparison with null would drop
    # all of its periods.
    overlapping = (
        (periods.c.gpu == gpus.c.key)
        & (periods.c.start >= func.coalesce(_last_start(start), start))
        & (periods.c.start < end)
        & (periods.c.end > start)
    )
    query = _by_gpu(overlapping, columns).order_by(gpus.c.key, periods.c.start)
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
    condition: ColumnElement[bool], columns: Iterable[ColumnElement[Any]] = periods.c
) -> Select[Any]:
    """Select periods by an outer join: with an inner one SQLite would scan all periods first.

    A GPU without periods has a row in which all columns are null.
    """
    return select(*columns).select_from(gpus.outerjoin(periods, condition))


def _last_start(at: float) -> ScalarSelect[float | None]:
    """The start of the last period of a GPU that began at or before a time."""
    earlier = periods.alias()
    of_gpu = (earlier.c.gpu == gpus.c.key) & (earlier.c.start <= at)
    last = select(func.max(earlier.c.start)).where(of_gpu)
    return last.scalar_subquery()
