"""Parser for points in time: "yesterday 03:12", "-2h", "Mon 09:00", "2026-11-15T03:12".

A zone is a `tzinfo`, or `None` for that of this machine. `parse_moment` reads times of the past: a
time without a day is its latest occurrence, and so is a day of the week. Where the clocks were set
back, the second occurrence is taken; a time that they skipped is refused. `parse_upcoming` reads
times to come, in the same way: the next occurrence, and the first of two.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime, time, timedelta, tzinfo

from fleet_smi.errors import UsageError
from fleet_smi.model.safe_text import sanitize_text
from fleet_smi.model.units import parse_duration

_MAX_AHEAD_SECONDS = 5.0
_EPOCH = re.compile(r"@?([0-9]{9,11}(?:\.[0-9]{1,9})?)")
_LENGTH = re.compile(r"(?:[0-9]{1,6}(?:\.[0-9]{1,6})?(?:d|h|min|m|s))+", re.IGNORECASE)
_PART = re.compile(r"[0-9.]+[a-z]+", re.IGNORECASE)
_DAY = r"(?P<day>[a-z]+|[0-9]{4}-[0-9]{2}-[0-9]{2})"
_CLOCK = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}))?"
_CALENDAR = re.compile(rf"(?:{_DAY}(?:\s+|t|$))?(?:{_CLOCK})?")
_WEEK = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MIN_DAY_LETTERS = 3
_DAYS_BACK = 15  # two weeks: the clocks may have skipped the time of last week
_MAX_SHOWN = 40
_UPCOMING_EXAMPLES = "write it like 'fri 18:00', 'tomorrow 09:00', 18:00, 2026-11-20T18:00 or +2h"
_EXAMPLES = "write it like 'yesterday 03:12', 2026-11-15T03:12, 14:00, 'Mon 09:00' or -2h"


def parse_moment(text: str, now: float, zone: tzinfo | None = None) -> float:
    """Return a past point in time as seconds since 1970; raise `UsageError` otherwise."""
    spec = text.strip().lower()
    if found := _EPOCH.fullmatch(spec):
        at = float(found[1])
        # "Now" by the clock of a program that is a little ahead of ours, or rounded up.
        return now if now < at <= now + _MAX_AHEAD_SECONDS else _past(at, text, now)
    if spec == "now":
        return now
    if spec.startswith("-") and _LENGTH.fullmatch(spec, 1):
        return _past(now - _seconds(spec[1:]), text, now)
    try:
        return _calendar_time(spec, text, now, zone)
    except (ValueError, OverflowError, OSError):  # no such day, no such hour, no such year
        raise UsageError(f"{_shown(text)} is not a point in time: {_EXAMPLES}") from None


def parse_upcoming(text: str, now: float, zone: tzinfo | None = None) -> float:
    """Return a point in time that is to come, as seconds since 1970; raise `UsageError` otherwise.

    "fri 18:00" is the next one, "+2h" in two hours.
    """
    spec = text.strip().lower()
    if found := _EPOCH.fullmatch(spec):
        return _future(float(found[1]), text, now)
    if spec == "now":
        return now
    if spec.startswith("+") and _LENGTH.fullmatch(spec, 1):
        return now + _seconds(spec[1:])
    try:
        return _upcoming_time(spec, text, now, zone)
    except (ValueError, OverflowError, OSError):  # no such day, no such hour, no such year
        message = f"{_shown(text)} is not a point in time to come: {_UPCOMING_EXAMPLES}"
        raise UsageError(message) from None


def parse_length(text: str) -> float:
    """Return a length of time in seconds: "12h", "1d12h"; raise `UsageError` otherwise."""
    spec = text.strip()
    if not _LENGTH.fullmatch(spec):
        raise UsageError(f"{_shown(text)} is not a length of time: write it like 90min, 12h or 2d")
    return _seconds(spec)


def parse_since(text: str, now: float, zone: tzinfo | None = None) -> float:
    """Return the start of a range: a duration before now ("24h", "1d12h") or a point in time."""
    spec = text.strip()
    return parse_moment(f"-{spec}" if _LENGTH.fullmatch(spec) else spec, now, zone)


def to_remote_moment(text: str, now: float, zone: tzinfo | None = None) -> str:
    """Return the text for another machine: relative times stay relative, by its own clock."""
    at = parse_since(text, now, zone)
    spec = text.strip().lower()
    if _LENGTH.fullmatch(spec):
        return f"-{spec}"
    return spec if spec == "now" or spec.startswith("-") else f"{at:.3f}"


def _seconds(spec: str) -> float:
    return sum(parse_duration(part) for part in _PART.findall(spec))


def _calendar_time(spec: str, text: str, now: float, zone: tzinfo | None) -> float:
    found = _CALENDAR.fullmatch(spec)
    if found is None or not spec:
        raise ValueError
    days = _days(found["day"], datetime.fromtimestamp(now, zone).date())
    if found["hour"] is None:
        return _past(_beginning(days[0], zone), text, now)
    clock = time(int(found["hour"]), int(found["minute"]), int(found["second"] or 0))
    times = [at for day in days for at in _instants(datetime.combine(day, clock), zone)]
    if not times:
        raise UsageError(
            f"{_shown(text)} does not exist on that day: the clocks were set forward over it"
        )
    # Where all of them are in the future any will do: `_past` refuses it.
    return _past(max((at for at in times if at <= now), default=times[0]), text, now)


def _upcoming_time(spec: str, text: str, now: float, zone: tzinfo | None) -> float:
    found = _CALENDAR.fullmatch(spec)
    if found is None or not spec:
        raise ValueError
    days = _days(found["day"], datetime.fromtimestamp(now, zone).date(), step=1)
    if found["hour"] is None:
        times = [_beginning(day, zone) for day in days]
    else:
        clock = time(int(found["hour"]), int(found["minute"]), int(found["second"] or 0))
        times = [at for day in days for at in _instants(datetime.combine(day, clock), zone)]
    if not times:
        raise UsageError(
            f"{_shown(text)} does not exist on that day: the clocks are set forward over it"
        )
    # Where all of them are in the past any will do: `_future` refuses it.
    return _future(min((at for at in times if at >= now), default=times[0]), text, now)


def _days(word: str | None, today: date, step: int = -1) -> Sequence[date]:
    """Return the possible days, the nearest first; backwards or, with a `step` of 1, forwards."""
    near = [today + timedelta(step * days) for days in range(_DAYS_BACK)]
    if word is None:
        return near
    if word == "today":
        return near[:1]
    if word == ("yesterday" if step < 0 else "tomorrow"):
        return near[1:2]
    if word[0].isdecimal():
        return [date.fromisoformat(word)]
    if len(word) < _MIN_DAY_LETTERS:
        raise ValueError
    # An unknown day fails to unpack, with the `ValueError` that the caller expects.
    (weekday,) = [at for at, name in enumerate(_WEEK) if name.startswith(word)]
    return [day for day in near if day.weekday() == weekday]


def _instants(clock: datetime, zone: tzinfo | None) -> Iterator[float]:
    """Yield when the clocks of a zone showed that time: once, twice or never."""
    # `fold` chooses between the two occurrences of a repeated hour. A skipped time does not
    # survive the way to a timestamp and back, so it yields nothing.
    for fold in (0, 1):
        at = clock.replace(tzinfo=zone, fold=fold).timestamp()
        if datetime.fromtimestamp(at, zone).replace(tzinfo=None) == clock:
            yield at


def _beginning(day: date, zone: tzinfo | None) -> float:
    return datetime.combine(day, time(), zone).timestamp()


def _future(at: float, text: str, now: float) -> float:
    if at < now:
        raise UsageError(f"{_shown(text)} is in the past")
    return at


def _past(at: float, text: str, now: float) -> float:
    if at > now:
        raise UsageError(f"{_shown(text)} is in the future")
    if at < 0:
        raise UsageError(f"{_shown(text)} is before 1970")
    return at


def _shown(text: str) -> str:
    return repr(sanitize_text(text, _MAX_SHOWN))
