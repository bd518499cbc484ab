"""One GPU's periods as a row of a heat strip: in each column what it was for the longest."""

from collections.abc import Iterable, Sequence

from fleet_smi.model.fleet import State
from fleet_smi.model.history import NOBODY, Holder, Period, Run

_TAKEN = ("busy", "held", "ghost")
_HALF = 0.5 - 1e-9  # of a column, whatever the division left over
Look = tuple[State, str, int]
"""A state, whose it is, and with how many others."""
Stood = tuple[float, float | None, Look]
"""From when to when a GPU looked so; the end is `None` while it does."""
_Stretch = tuple[int, int, Look]
"""The first column, the one after the last, and how they look."""


def runs(
    stood: Iterable[Stood],
    start: float,
    end: float,
    columns: int,
    busy_percents: Sequence[float | None] = (),
) -> tuple[Run, ...]:
    """What is shown from `start` to `end` in so many columns, neighbours that look alike joined.

    A column shows the state and user that had most of it; one in which the node was not heard
    for more than half of the time shows nothing. `busy_percents` are the mean loads of the
    columns, where known. What `stood` is in order and does not overlap; cost goes with its
    number, not with that of columns.
    """
    width = (end - start) / columns
    return tuple(
        Run(
            start=start + first * width,
            end=start + last * width,
            state=look[0],
            user=look[1],
            others=look[2],
            busy_percent=_mean(busy_percents[first:last]) if busy_percents else None,
        )
        for first, last, look in _stretches(stood, start, end, width)
    )


def look_of(period: Period) -> Look:
    """How a period looks: whoever has the most memory gives the name."""
    holders = period.holders
    if not holders or period.state not in _TAKEN:
        return period.state, NOBODY, 0
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


def _stretches(stood: Iterable[Stood], start: float, end: float, width: float) -> list[_Stretch]:
    """Columns as they look, neighbours joined; those that several periods share are settled."""
    found: list[_Stretch] = []
    shares: dict[Look, float] = {}
    column = -1
    for since, ended, look in stood:
        until = end if ended is None or ended > end else ended
        first = (since - start) / width if since > start else 0.0
        last = (until - start) / width
        if last <= first:
            continue
        begins, ends = int(first), int(last)
        if begins != column:
            _settle(found, column, shares)
            shares, column = {}, begins
        shares[look] = shares.get(look, 0.0) + (last if ends == begins else begins + 1) - first
        if ends > begins:
            _settle(found, column, shares)
            if ends > begins + 1:
                _join(found, begins + 1, ends, look)
            shares, column = {look: last - ends}, ends
    _settle(found, column, shares)
    return found


def _settle(found: list[_Stretch], column: int, shares: dict[Look, float]) -> None:
    """Show what had most of a column, if the node was heard for half of the time."""
    if len(shares) == 1:
        ((look, share),) = shares.items()
        if share >= _HALF:
            _join(found, column, column + 1, look)
    elif sum(shares.values()) >= _HALF:
        _join(found, column, column + 1, _most(shares))


def _most(shares: dict[Look, float]) -> Look:
    """The look of the state and user that had the most, alone and with others."""
    if not any(others for _, _, others in shares):
        return max(shares, key=shares.__getitem__)
    totals: dict[tuple[State, str], float] = {}
    for (state, user, _), share in shares.items():
        totals[state, user] = totals.get((state, user), 0.0) + share
    most = max(totals, key=totals.__getitem__)
    return max((look for look in shares if look[:2] == most), key=shares.__getitem__)


def _join(found: list[_Stretch], first: int, last: int, look: Look) -> None:
    if found and found[-1][1] == first and found[-1][2] == look:
        found[-1] = (found[-1][0], last, look)
    else:
        found.append((first, last, look))


def _mean(percents: Sequence[float | None]) -> float | None:
    known = [percent for percent in percents if percent is not None]
    return sum(known) / len(known) if known else None
