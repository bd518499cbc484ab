"""Where the hours and days stand above a row of columns, and what a range is called."""

from collections.abc import Iterator
from datetime import datetime

from fleet_smi.terminal.paint import width
from fleet_smi.terminal.view.words import Local, duration, moment

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


def ticks(start: float, end: float, columns: int, local: Local) -> Iterator[tuple[int, str]]:
    """The column and the label of each round time, far enough apart to be read."""
    step = _step(end - start, columns)
    at = _round_up(start, step, local)
    while at < end:
        yield int((at - start) / (end - start) * columns), _label(local(at), step)
        at = _round_up(at + 1, step, local)


def range_words(start: float, end: float, now: float, local: Local) -> str:
    """What a range is called: "last hour", "yesterday 09:00 to 12:00"."""
    lasted = end - start
    if abs(now - end) < max(_LATE_SECONDS, lasted / 100):
        return _CALLED.get(round(lasted / _MINUTE) * _MINUTE) or f"last {duration(lasted)}"
    until = moment(end, now, local)
    if local(start).date() == local(end).date():
        until = f"{local(end):%H:%M}"
    elif local(end).date() == local(now).date():
        until = f"today {until}"
    return f"{moment(start, now, local)} to {until}"


def line(labels: Iterator[tuple[int, str]], begun: str, room: int, last: str = "") -> str:
    """Labels in their columns behind what stands there already; those without room go."""
    written = begun
    for column, label in labels:
        fits = column + width(label) + (width(last) + 1 if last else 0) <= room
        if fits and (column > width(written) or not written):
            written += " " * (column - width(written)) + label
    return written + " " * (room - width(written) - width(last)) + last if last else written


def _step(seconds: float, columns: int) -> float:
    least = seconds / columns * (_LONGEST_LABEL + _BETWEEN_LABELS)
    return next((step for step in _STEPS if step >= least), _STEPS[-1])


def _round_up(at: float, step: float, local: Local) -> float:
    """The next time that is round on the clocks there, on either side of a change of them."""
    ahead = _ahead(at, local)
    found = -(-(at + ahead) // step) * step - ahead
    moved = _ahead(found, local)
    return found if (found + moved) % step == 0 else max(at, found + ahead - moved)


def _ahead(at: float, local: Local) -> float:
    offset = local(at).utcoffset()
    return offset.total_seconds() if offset else 0.0


def _label(at: datetime, step: float) -> str:
    if step < _DAY and (at.hour or at.minute):
        return f"{at:%H:%M}"
    return f"{at:%b} {at.day}"
