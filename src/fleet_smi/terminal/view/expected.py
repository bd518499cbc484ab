"""When something can be expected, as text: "usually by 23:00, 7 of 10"."""

from datetime import datetime

from fleet_smi.model.queue.estimate import Expected

_DAY_SECONDS = 86_400.0


def format_expected(expected: Expected | None, now: float) -> str:
    """Return the time and how sure it is; empty where that is not known."""
    if expected is None or expected.by is None or expected.of_ten is None:
        return ""
    return f"usually by {_clock(expected.by, now)}, {expected.of_ten} of 10"


def _clock(at: float, now: float) -> str:
    """Return the local time, with the day where that is not today."""
    when, today = datetime.fromtimestamp(at).astimezone(), datetime.fromtimestamp(now).astimezone()
    if when.date() == today.date():
        return when.strftime("%H:%M")
    return when.strftime("%a %H:%M" if at - now < 6 * _DAY_SECONDS else "%d %b")
