"""How GPUs stood, as the database is asked for it: GPU by GPU, each in the order of time."""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import ColumnElement, Row, ScalarSelect, Select, func, select

from fleet_smi.hub.history.storage.holder_codec import decode_holders
from fleet_smi.hub.history.storage.schema import gpus, nodes, periods
from fleet_smi.model.history import Period


def select_last_periods(at: float) -> Select[Any]:
    """The last of each GPU that had begun by then; it may have ended before."""
    return _by_gpu((periods.c.gpu == gpus.c.key) & (periods.c.start == _last_start(at)))


def select_periods(
    start: float,
    end: float,
    node_ids: Collection[str] | None,
    columns: Iterable[ColumnElement[Any]] = periods.c,
) -> Select[Any]:
    """Those that overlap with a range, in the order of the GPUs and of time.

    Periods of a GPU do not overlap: the first is the last that had begun at the start.
    """
    overlapping = (
        (periods.c.gpu == gpus.c.key)
        & (periods.c.start >= func.coalesce(_last_start(start), start))
        & (periods.c.start < end)
        & (periods.c.end > start)
    )
    asked = _by_gpu(overlapping, columns).order_by(gpus.c.key, periods.c.start)
    if node_ids is None:
        return asked
    of_nodes = select(nodes.c.key).where(nodes.c.node_id.in_(node_ids))
    return asked.where(gpus.c.node.in_(of_nodes))


def period_from_row(row: Row[*tuple[Any, ...]]) -> Period:
    """A row of all columns as what it tells of."""
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
    """Periods looked up GPU by GPU: an inner join, SQLite would begin with all periods.

    A GPU without any has a row without a start.
    """
    return select(*columns).select_from(gpus.outerjoin(periods, condition))


def _last_start(at: float) -> ScalarSelect[float | None]:
    """When the last period of a GPU began that had begun by then."""
    begun = periods.alias()
    last = select(func.max(begun.c.start)).where(begun.c.gpu == gpus.c.key, begun.c.start <= at)
    return last.scalar_subquery()
