"""Backfill of ribbon points that were not recorded at the time, computed from the ledger.

The hub records a point of the whole fleet every minute. What it learned later, from late
reports, is in the ledger only. Pure.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TypeVar

from fleet_smi.hub.history.recording.rows import Presence
from fleet_smi.model.fleet import STATES, State
from fleet_smi.model.history import GpuPeriods, Period, RibbonPoint

_start = attrgetter("start")
_Interval = TypeVar("_Interval", Period, Presence)


def missing_starts(
    points: Iterable[RibbonPoint], start: float, end: float, seconds: float
) -> list[float]:
    """The starts of the columns, `seconds` wide, that have no point."""
    present = {round((point.at - start) / seconds) for point in points}
    columns = range(int((end - start) // seconds))
    return [start + column * seconds for column in columns if column not in present]


def backfill_points(
    starts: Sequence[float],
    seconds: float,
    gpu_periods: Iterable[GpuPeriods],
    presence: Iterable[Presence],
) -> Iterator[RibbonPoint]:
    """The fleet in the middle of each of these columns, where any node was reporting."""
    nodes = _presence_by_node(presence)
    # Without instances: the recorder counts whole GPUs too.
    gpus = [row.periods for row in gpu_periods if row.gpu.parent is None]
    for start in starts:
        at = start + seconds / 2
        reporting = sum(_interval_at(at, intervals) is not None for intervals in nodes)
        if reporting:
            states = Counter[State](
                period.state
                for periods in gpus
                if (period := _interval_at(at, periods)) is not None
            )
            yield RibbonPoint(
                at=start,
                nodes=sum(intervals[0].start <= at for intervals in nodes),
                nodes_reporting=reporting,
                gpus={state: float(states[state]) for state in STATES},
            )


def _presence_by_node(presence: Iterable[Presence]) -> list[list[Presence]]:
    """The intervals of each node in time order; of two with the same start the last wins."""
    nodes: dict[str, dict[float, Presence]] = {}
    for interval in presence:
        nodes.setdefault(interval.node_id, {})[interval.start] = interval
    return [[by_start[start] for start in sorted(by_start)] for by_start in nodes.values()]


def _interval_at(at: float, intervals: Sequence[_Interval]) -> _Interval | None:
    """The interval that contains a time; they are in order and do not overlap."""
    index = bisect_right(intervals, at, key=_start)
    last = intervals[index - 1] if index else None
    return last if last is not None and (last.end is None or at < last.end) else None
