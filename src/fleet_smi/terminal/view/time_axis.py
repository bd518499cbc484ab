"""Where the hours and days stand above a row of columns, and what a range is called."""

from collections.abc import Iterator
from datetime import datetime

from fleet_smi.terminal.paint import display_width
from fleet_smi.terminal.view.formatting import ToLocalTime, format_elapsed, format_moment

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS = tuple(
    [minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)]
    + [hours * _HOUR for hours in (1, 2, 3, 4, 6, 12)]
    + [days * _DAY for days in (1, 2, 7, 14, 28, 91, 182, 364)]
)
_BETWEEN_LABELS = 2
_LONGEST_LABEL = 6
_LATE_SECONDS = 60.0  # an answer that ends so shortly ago ends now
_CALLED = {_HOUR: "last hour", _DAY: "last 24 h"}


def ticks(start: float, end: float, columns: int, local: ToLocalTime) -> Iterator[tuple[int, str]]:
    """The column and the label of each round time, far enough apart to be read."""
    step = _step(end - start, columns)
    at = _round_up(start, step, local)
    while at < end:
        yield int((at - start) / (end - start) * columns), _label(local(at), step)
        at = _round_up(at + 1, step, local)


def range_label(start: float, end: float, now: float, local: ToLocalTime) -> str:
    """What a range is called: "last hour", "yesterday 09:00 to 12:00"."""
    lasted = end - start
    if abs(now - end) < max(_LATE_SECONDS, lasted / 100):
        return _CALLED.get(round(lasted / _MINUTE) * _MINUTE) or f"last {format_elapsed(lasted)}"
    until = format_moment(end, now, local)
    if local(start).date() == local(end).date():
        until = f"{local(end):%H:%M}"
    elif local(end).date() == local(now).date():
        until = f"today {until}"
    return f"{format_moment(start, now, local)} to {until}"


def axis_line(
    labels: Iterator[tuple[int, str]], prefix: str, columns: int, last_label: str = ""
) -> str:
    """Labels in their columns behind what stands there already; those without room go."""
    written = prefix
    for column, label in labels:
        fits = (
            column + display_width(label) + (display_width(last_label) + 1 if last_label else 0)
            <= columns
        )
        if fits and (column > display_width(written) or not written):
            written += " " * (column - display_width(written)) + label
    return (
        written + " " * (columns - display_width(written) - display_width(last_label)) + last_label
        if last_label
        else written
    )


def _step(seconds: float, columns: int) -> float:
    least = seconds / columns * (_LONGEST_LABEL + _BETWEEN_LABELS)
    return next((step for step in _STEPS if step >= least), _STEPS[-1])


def _round_up(at: float, step: float, local: ToLocalTime) -> float:
    """The next time that is round on the clocks there, on either side of a change of them."""
    ahead = _ahead(at, local)
    found = -(-(at + ahead) // step) * step - ahead
    moved = _ahead(found, local)
    return found if (found + moved) % step == 0 else max(at, found + ahead - moved)


def _ahead(at: float, local: ToLocalTime) -> float:
    offset = local(at).utcoffset()
    return offset.total_seconds() if offset else 0.0


def _label(at: datetime, step: float) -> str:
    if step < _DAY and (at.hour or at.minute):
        return f"{at:%H:%M}"
    return f"{at:%b} {at.day}"
