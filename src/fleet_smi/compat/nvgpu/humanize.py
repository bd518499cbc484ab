"""Short texts of nvgpu: abbreviated command lines and "2 weeks ago". Pure."""

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
