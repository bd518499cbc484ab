"""Short texts of nvgpu: abbreviated command lines and "2 weeks ago", both ways. Pure."""

import re
from typing import NamedTuple

_MAX_COMMAND_LENGTH = 25
_NOTEBOOK = "python -m ipykernel_launcher"
_JUST_NOW_SECONDS = 10
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_UNITS = (
    # Greatest first: the first unit that fits is used.
    (365 * _DAY, "a year", "years"),
    (30 * _DAY, "a month", "months"),
    (7 * _DAY, "a week", "weeks"),
    (_DAY, "a day", "days"),
    (_HOUR, "an hour", "hours"),
    (_MINUTE, "a minute", "minutes"),
    (1, "a second", "seconds"),
)


_AGO = re.compile(r"(?:(an?)|([0-9]{1,6})) (second|minute|hour|day|week|month|year)s? ago")
_UNIT_SECONDS = {singular.split()[1]: seconds for seconds, singular, _ in _UNITS}


class AgeRange(NamedTuple):
    """An age that was given in words: the most likely value and the limits, in seconds."""

    seconds: float
    shortest: float
    longest: float


def shorten_command(command: str) -> str:
    """Abbreviate a command line: `jupyter`, the script that it runs, or its beginning."""
    if _NOTEBOOK in command:
        return "jupyter"
    script = next((word for word in command.split() if word.endswith(".py")), None)
    if script is not None:
        return script
    return command if len(command) <= _MAX_COMMAND_LENGTH else command[:_MAX_COMMAND_LENGTH] + "..."


def format_ago(seconds: float) -> str:
    """Format an age: "just now", "30 seconds ago", "an hour ago", "2 weeks ago"."""
    if seconds < _JUST_NOW_SECONDS:
        return "just now"
    unit_seconds, singular, plural = next(unit for unit in _UNITS if seconds >= unit[0])
    count = int(seconds // unit_seconds)
    return f"{singular} ago" if count == 1 else f"{count} {plural} ago"


def parse_ago(text: str) -> AgeRange | None:
    """Parse "just now", "seconds ago", "an hour ago" or "8 minutes ago"; `None` for other text.

    Versions of nvgpu round differently at the edge of a unit ("an hour ago" begins at 45 minutes
    in some), so each limit has one unit to spare.
    """
    if text in ("just now", "instantly"):
        return AgeRange(0.0, 0.0, 2 * _JUST_NOW_SECONDS)
    if text == "seconds ago":
        return AgeRange(_JUST_NOW_SECONDS, 0.0, _MINUTE)
    match = _AGO.fullmatch(text)
    if match is None:
        return None
    unit = _UNIT_SECONDS[match[3]]
    seconds = unit * (1 if match[1] else int(match[2]))
    # Ten spare seconds where the unit is a second: the request itself takes some.
    spare = max(unit, _JUST_NOW_SECONDS)
    return AgeRange(seconds, max(0, seconds - spare), seconds + unit + spare)
