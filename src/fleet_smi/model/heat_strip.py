"""Heat strips: the states of one GPU over time, downsampled to columns of equal length."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, compress, pairwise
from operator import itemgetter, ne
from typing import NamedTuple

from msgspec import Struct

from fleet_smi.model.fleet import State
from fleet_smi.model.history import NO_USER, Holder, Period, StripRun

_TAKEN = ("busy", "held", "ghost")
_HALF = 0.5 - 1e-9  # of a column, less the error of floating-point division
StripLook = tuple[State, str, int]
"""A state, the main user, and how many others share it."""
StripInterval = tuple[float, float | None, StripLook, float | None]
"""Start and end of a look, and its load; the end is `None` while it lasts."""
_Part = tuple[float, StripLook, float | None]
"""The share of a column that a period covers, its look and its load."""
_share = itemgetter(0)
_SAMPLE_POSITIONS = (1 / 6, 1 / 2, 5 / 6)
"""Where within a column samples are taken: the middles of its thirds."""
UNKNOWN_LOOK, UNKNOWN_LOAD = 0, 255
"""The look and the load of a sample of which nothing is known."""
# Translation tables: `bytes.translate` makes one pass in C over a whole strip.
_UNKNOWN_TO_ZERO = bytes([*range(UNKNOWN_LOAD), 0])
_KNOWN_TO_ONE = bytes([1] * UNKNOWN_LOAD + [0])


class LookSamples(NamedTuple):
    """Samples of one GPU: the ids of its looks, and its loads (0 to 100, or `UNKNOWN_LOAD`)."""

    looks: list[int]
    loads: bytearray


class _Stretch(Struct, gc=False):
    """Adjacent columns of one look; `load` is the sum over the `measured` columns."""

    first: int
    last: int
    look: StripLook
    measured: int = 0
    load: float = 0.0


def strip_runs(
    intervals: Iterable[StripInterval], start: float, end: float, columns: int
) -> tuple[StripRun, ...]:
    """Downsample intervals to `columns` columns from `start` to `end`, equal neighbours joined.

    A column shows the state and user that covered most of it; one in which the node was silent
    for more than half of the time is in no run. The intervals are in order and do not overlap;
    the cost grows with their number, not with that of the columns.
    """
    width = (end - start) / columns
    return tuple(
        StripRun(
            start=start + stretch.first * width,
            end=start + stretch.last * width,
            state=stretch.look[0],
            user=stretch.look[1],
            others=stretch.look[2],
            busy_percent=stretch.load / stretch.measured if stretch.measured else None,
        )
        for stretch in _stretches(intervals, start, end, width)
    )


def column_edges(start: float, end: float, columns: int) -> list[float]:
    """Return the start of each column, and the end of the last one."""
    width = (end - start) / columns
    return [start + column * width for column in range(columns + 1)]


def sample_times(edges: Sequence[float]) -> list[float]:
    """Return three times per column, to sample where there are too many periods to read."""
    return [
        start + part * (end - start) for start, end in pairwise(edges) for part in _SAMPLE_POSITIONS
    ]


def unknown_samples(count: int) -> LookSamples:
    """Return samples of which nothing is known."""
    return LookSamples([UNKNOWN_LOOK] * count, bytearray([UNKNOWN_LOAD]) * count)


def strip_runs_from_samples(
    samples: LookSamples, looks: Mapping[int, StripLook], edges: Sequence[float]
) -> tuple[StripRun, ...]:
    """Downsample a GPU that is known only at the times of `sample_times`.

    A column shows the look of two of its three samples, or else that of the middle one. One whose
    look is not in `looks`, like `UNKNOWN_LOOK`, is in no run.
    """
    firsts, middles, lasts = (samples.looks[part::3] for part in range(3))
    cells = [
        first if first == last else middle
        for first, middle, last in zip(firsts, middles, lasts, strict=True)
    ]
    changes = compress(range(1, len(cells)), map(ne, cells, cells[1:]))
    # The middle sample has the load of its column. Prefix sums then give the mean load of any
    # run of columns by two subtractions.
    loads = samples.loads[1::3]
    sums = [*accumulate(loads.translate(_UNKNOWN_TO_ZERO), initial=0)]
    measured = [*accumulate(loads.translate(_KNOWN_TO_ONE), initial=0)]
    return tuple(
        [
            StripRun(
                start=edges[first],
                end=edges[last],
                state=look[0],
                user=look[1],
                others=look[2],
                busy_percent=(sums[last] - sums[first]) / count if count else None,
            )
            for first, last in pairwise((0, *changes, len(cells)))
            if (look := looks.get(cells[first])) is not None
            for count in (measured[last] - measured[first],)
        ]
    )


def period_look(period: Period) -> StripLook:
    """Return the look of a period: its main user is the one with the most memory.

    A GPU that is not in use has no user, even if processes are listed.
    """
    holders = period.holders
    if not holders or period.state not in _TAKEN:
        return period.state, NO_USER, 0
    if len(holders) == 1:
        return period.state, holders[0].user, 0
    users = _users_by_memory(holders)
    return period.state, users[0], len(users) - 1


def _users_by_memory(holders: Iterable[Holder]) -> list[str]:
    """Return the users, the one with the most memory first."""
    memory: dict[str, int] = {}
    for holder in holders:
        memory[holder.user] = memory.get(holder.user, 0) + (holder.memory_bytes or 0)
    return sorted(memory, key=lambda user: (-memory[user], user))


def _stretches(
    intervals: Iterable[StripInterval], start: float, end: float, width: float
) -> list[_Stretch]:
    """Return the stretches of equal columns, in one pass over the intervals.

    `parts` collects the shares of the one `column` that several intervals cover in part.
    """
    found: list[_Stretch] = []
    parts: list[_Part] = []
    column = -1
    for since, ended, look, load in intervals:
        until = end if ended is None or ended > end else ended
        first = (since - start) / width if since > start else 0.0
        last = (until - start) / width
        if last <= first:
            continue
        # In units of columns: the interval covers part of the column `begins`, all between, and
        # part of the column `ends`, which the next interval may share.
        begins, ends = int(first), int(last)
        if begins != column:
            _close_column(found, column, parts)
            parts, column = [], begins
        if ends == begins:
            parts.append((last - first, look, load))
            continue
        parts.append((begins + 1 - first, look, load))
        _close_column(found, column, parts)
        if ends > begins + 1:
            _join(found, begins + 1, ends, look, load)
        parts, column = [(last - ends, look, load)], ends
    _close_column(found, column, parts)
    return found


def _close_column(found: list[_Stretch], column: int, parts: Sequence[_Part]) -> None:
    """Add a column with the look of most of it, unless more than half of it is unknown."""
    if sum([part[0] for part in parts]) >= _HALF:
        # Of one or two parts the larger one covers most; only from three on shares can add up.
        _, look, load = max(parts, key=_share) if len(parts) < 3 else _largest(parts)
        _join(found, column, column + 1, look, load)


def _largest(parts: Sequence[_Part]) -> _Part:
    """Return the largest part among those of the state and user that cover most in sum."""
    # Summed without the number of others first: a user who was now alone, now with others, must
    # not lose the column to a user with one longer part.
    totals: dict[tuple[State, str], float] = {}
    by_look: dict[StripLook, float] = {}
    for share, look, _ in parts:
        totals[look[:2]] = totals.get(look[:2], 0.0) + share
        by_look[look] = by_look.get(look, 0.0) + share
    main = max(totals, key=totals.__getitem__)
    main_look = max((look for look in by_look if look[:2] == main), key=by_look.__getitem__)
    return max((part for part in parts if part[1] == main_look), key=_share)


def _join(
    found: list[_Stretch], first: int, last: int, look: StripLook, load: float | None
) -> None:
    if not found or found[-1].last != first or found[-1].look != look:
        found.append(_Stretch(first, last, look))
    stretch = found[-1]
    stretch.last = last
    if load is not None:
        stretch.measured += last - first
        stretch.load += (last - first) * load
