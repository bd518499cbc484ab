"""One GPU over time as a row of a heat strip: in each column what it was for the longest."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, compress, pairwise
from operator import itemgetter, ne
from typing import NamedTuple

from msgspec import Struct

from fleet_smi.model.fleet import State
from fleet_smi.model.history import NO_USER, Holder, Period, StripRun

_TAKEN = ("busy", "held", "ghost")
_HALF = 0.5 - 1e-9  # of a column, whatever the division left over
StripLook = tuple[State, str, int]
"""A state, whose it is, and with how many others."""
StripInterval = tuple[float, float | None, StripLook, float | None]
"""From when to when a GPU looked so, and its load; the end is `None` while it does."""
_Part = tuple[float, StripLook, float | None]
"""What a period has of a column, how it looked and its load."""
_share = itemgetter(0)
_SAMPLED = (1 / 6, 1 / 2, 5 / 6)
"""Where columns are looked at, as parts of them."""
UNKNOWN_LOOK, UNKNOWN_LOAD = 0, 255
"""The look and the load of a sample of which nothing is known."""
_UNTOLD_AS_ZERO = bytes([*range(UNKNOWN_LOAD), 0])
_TOLD_AS_ONE = bytes([1] * UNKNOWN_LOAD + [0])


class LookSamples(NamedTuple):
    """How a GPU looked at some moments, by the numbers of looks, and its loads in percent."""

    looks: list[int]
    loads: bytearray


class _Stretch(Struct, gc=False):
    """Columns that look alike, in how many their load was told, and the sum of these loads."""

    first: int
    last: int
    look: StripLook
    told: int = 0
    load: float = 0.0


def strip_runs(
    intervals: Iterable[StripInterval], start: float, end: float, columns: int
) -> tuple[StripRun, ...]:
    """What is shown from `start` to `end` in so many columns, neighbours that look alike joined.

    A column shows the state and user that had most of it; one in which the node was not heard
    for more than half of the time shows nothing. What `stood` is in order and does not overlap;
    cost goes with its number, not with that of columns.
    """
    width = (end - start) / columns
    return tuple(
        StripRun(
            start=start + one.first * width,
            end=start + one.last * width,
            state=one.look[0],
            user=one.look[1],
            others=one.look[2],
            busy_percent=one.load / one.told if one.told else None,
        )
        for one in _stretches(intervals, start, end, width)
    )


def column_edges(start: float, end: float, columns: int) -> list[float]:
    """Where columns begin, and where the last one ends."""
    width = (end - start) / columns
    return [start + column * width for column in range(columns + 1)]


def sample_times(edges: Sequence[float]) -> list[float]:
    """The moments that columns are judged by where there are too many periods to look at."""
    return [start + part * (end - start) for start, end in pairwise(edges) for part in _SAMPLED]


def unknown_samples(count: int) -> LookSamples:
    """So many samples of which nothing is known."""
    return LookSamples([UNKNOWN_LOOK] * count, bytearray([UNKNOWN_LOAD]) * count)


def strip_runs_from_samples(
    samples: LookSamples, looks: Mapping[int, StripLook], edges: Sequence[float]
) -> tuple[StripRun, ...]:
    """What is shown where a GPU is known at the moments of `sampled_at` alone.

    A column shows what two of its three samples do, or else the one in its middle.
    """
    firsts, middles, lasts = (samples.looks[part::3] for part in range(3))
    cells = [
        first if first == last else middle
        for first, middle, last in zip(firsts, middles, lasts, strict=True)
    ]
    changes = compress(range(1, len(cells)), map(ne, cells, cells[1:]))
    loads = samples.loads[1::3]
    sums = [*accumulate(loads.translate(_UNTOLD_AS_ZERO), initial=0)]
    told = [*accumulate(loads.translate(_TOLD_AS_ONE), initial=0)]
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
            for count in (told[last] - told[first],)
        ]
    )


def period_look(period: Period) -> StripLook:
    """How a period looks: whoever has the most memory gives the name."""
    holders = period.holders
    if not holders or period.state not in _TAKEN:
        return period.state, NO_USER, 0
    if len(holders) == 1:
        return period.state, holders[0].user, 0
    users = _owners(holders)
    return period.state, users[0], len(users) - 1


def _owners(holders: Iterable[Holder]) -> list[str]:
    """The users, the one with the most memory first."""
    memory: dict[str, int] = {}
    for holder in holders:
        memory[holder.user] = memory.get(holder.user, 0) + (holder.memory_bytes or 0)
    return sorted(memory, key=lambda user: (-memory[user], user))


def _stretches(
    stood: Iterable[StripInterval], start: float, end: float, width: float
) -> list[_Stretch]:
    """Columns as they look, neighbours joined; those that several periods share are settled."""
    found: list[_Stretch] = []
    parts: list[_Part] = []
    column = -1
    for since, ended, look, load in stood:
        until = end if ended is None or ended > end else ended
        first = (since - start) / width if since > start else 0.0
        last = (until - start) / width
        if last <= first:
            continue
        begins, ends = int(first), int(last)
        if begins != column:
            _settle(found, column, parts)
            parts, column = [], begins
        if ends == begins:
            parts.append((last - first, look, load))
            continue
        parts.append((begins + 1 - first, look, load))
        _settle(found, column, parts)
        if ends > begins + 1:
            _join(found, begins + 1, ends, look, load)
        parts, column = [(last - ends, look, load)], ends
    _settle(found, column, parts)
    return found


def _settle(found: list[_Stretch], column: int, parts: Sequence[_Part]) -> None:
    """Show what had most of a column, if the node was heard for half of the time."""
    if sum([part[0] for part in parts]) >= _HALF:
        _, look, load = max(parts, key=_share) if len(parts) < 3 else _most(parts)
        _join(found, column, column + 1, look, load)


def _most(parts: Sequence[_Part]) -> _Part:
    """The largest part of the state and user that had the most, alone and with others."""
    totals: dict[tuple[State, str], float] = {}
    by_look: dict[StripLook, float] = {}
    for share, look, _ in parts:
        totals[look[:2]] = totals.get(look[:2], 0.0) + share
        by_look[look] = by_look.get(look, 0.0) + share
    most = max(totals, key=totals.__getitem__)
    alike = max((look for look in by_look if look[:2] == most), key=by_look.__getitem__)
    return max((part for part in parts if part[1] == alike), key=_share)


def _join(
    found: list[_Stretch], first: int, last: int, look: StripLook, load: float | None
) -> None:
    if not found or found[-1].last != first or found[-1].look != look:
        found.append(_Stretch(first, last, look))
    stretch = found[-1]
    stretch.last = last
    if load is not None:
        stretch.told += last - first
        stretch.load += (last - first) * load
