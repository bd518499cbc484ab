"""How nvgpu words what a GPU is used for, and since when."""

_LONGEST_COMMAND = 25
_NOTEBOOK = "python -m ipykernel_launcher"
_JUST_NOW_SECONDS = 10
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_UNITS = (
    (365 * _DAY, "a year", "years"),
    (30 * _DAY, "a month", "months"),
    (7 * _DAY, "a week", "weeks"),
    (_DAY, "a day", "days"),
    (_HOUR, "an hour", "hours"),
    (_MINUTE, "a minute", "minutes"),
    (1, "a second", "seconds"),
)


def shorten_command(command: str) -> str:
    """A command line in few letters: a notebook, the script that it runs, or its beginning."""
    if _NOTEBOOK in command:
        return "jupyter"
    script = next((word for word in command.split() if word.endswith(".py")), None)
    if script is not None:
        return script
    return command if len(command) <= _LONGEST_COMMAND else command[:_LONGEST_COMMAND] + "..."


def format_ago(seconds: float) -> str:
    """How long ago: "just now", "30 seconds ago", "an hour ago", "2 weeks ago"."""
    if seconds < _JUST_NOW_SECONDS:
        return "just now"
    length, one, many = next(unit for unit in _UNITS if seconds >= unit[0])
    count = int(seconds // length)
    return f"{one} ago" if count == 1 else f"{count} {many} ago"
