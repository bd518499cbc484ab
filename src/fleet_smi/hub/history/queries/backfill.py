"""Parts of a ribbon that nobody noted at the time, made up for from the ledger.

The hub notes the whole fleet every minute. What it learned later, from reports that came
late, stands in the ledger alone. Pure.
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
_Stretch = TypeVar("_Stretch", Period, Presence)


def missing_starts(
    points: Iterable[RibbonPoint], start: float, end: float, seconds: float
) -> list[float]:
    """Where the parts of so many seconds begin that nobody noted."""
    known = {round((moment.at - start) / seconds) for moment in points}
    parts = range(int((end - start) // seconds))
    return [start + part * seconds for part in parts if part not in known]


def backfill_points(
    starts: Sequence[float],
    seconds: float,
    gpu_periods: Iterable[GpuPeriods],
    presence: Iterable[Presence],
) -> Iterator[RibbonPoint]:
    """How the fleet stood in the middle of each of these parts; none where nobody was heard."""
    heard = _by_node(presence)
    stood = [row.periods for row in gpu_periods if row.gpu.parent is None]
    for beginning in starts:
        at = beginning + seconds / 2
        reporting = sum(_at(at, stretches) is not None for stretches in heard)
        if reporting:
            states = Counter[State](
                period.state for periods in stood if (period := _at(at, periods)) is not None
            )
            yield RibbonPoint(
                at=beginning,
                nodes=sum(stretches[0].start <= at for stretches in heard),
                nodes_reporting=reporting,
                gpus={state: float(states[state]) for state in STATES},
            )


def _by_node(presence: Iterable[Presence]) -> list[list[Presence]]:
    nodes: dict[str, dict[float, Presence]] = {}
    for one in presence:
        nodes.setdefault(one.node_id, {})[one.start] = one
    return [[stretches[start] for start in sorted(stretches)] for stretches in nodes.values()]


def _at(at: float, stretches: Sequence[_Stretch]) -> _Stretch | None:
    """The stretch that a moment is in, of some in order that do not overlap."""
    place = bisect_right(stretches, at, key=_start)
    last = stretches[place - 1] if place else None
    return last if last is not None and (last.end is None or at < last.end) else None
