"""Time axis above a strip: ticks at round local times, and the label of a range."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from fleet_smi.model.units import format_elapsed
from fleet_smi.terminal.paint import display_width
from fleet_smi.terminal.view.formatting import ToLocalTime, format_moment

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS = tuple(
    [minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)]
    + [hours * _HOUR for hours in (1, 2, 3, 4, 6, 12)]
    + [days * _DAY for days in (1, 2, 7, 14, 28, 91, 182, 364)]
)
_LABEL_GAP = 2
_MAX_LABEL_WIDTH = 6
_MAX_LATE_SECONDS = 60.0  # a range that ended this recently counts as ending now
_RANGE_NAMES = {_HOUR: "last hour", _DAY: "last 24 h"}


def axis_ticks(
    start: float, end: float, columns: int, local: ToLocalTime
) -> Iterator[tuple[int, str]]:
    """Yield column and label of each round time, far enough apart to be readable."""
    step = _step(end - start, columns)
    at = _round_up(start, step, local)
    while at < end:
        yield int((at - start) / (end - start) * columns), _label(local(at), step)
        # One second later: a tick rounded up again would be the same tick.
        at = _round_up(at + 1, step, local)


def range_label(start: float, end: float, now: float, local: ToLocalTime) -> str:
    """Return the label of a range: "last hour", "yesterday 09:00 to 12:00"."""
    length = end - start
    if abs(now - end) < max(_MAX_LATE_SECONDS, length / 100):
        name = _RANGE_NAMES.get(round(length / _MINUTE) * _MINUTE)
        return name or f"last {format_elapsed(length)}"
    until = format_moment(end, now, local)
    if local(start).date() == local(end).date():
        until = f"{local(end):%H:%M}"
    elif local(end).date() == local(now).date():
        until = f"today {until}"
    return f"{format_moment(start, now, local)} to {until}"


def axis_line(
    labels: Iterable[tuple[int, str]], prefix: str, columns: int, last_label: str = ""
) -> str:
    """Return the prefix and the labels at their columns; labels that overlap are left out."""
    line = prefix
    reserved = display_width(last_label) + 1 if last_label else 0
    for column, label in labels:
        fits = column + display_width(label) + reserved <= columns
        if fits and (column > display_width(line) or not line):
            line += " " * (column - display_width(line)) + label
    if not last_label:
        return line
    return line + " " * (columns - display_width(line) - display_width(last_label)) + last_label


def _step(seconds: float, columns: int) -> float:
    min_step = seconds / columns * (_MAX_LABEL_WIDTH + _LABEL_GAP)
    return next((step for step in _STEPS if step >= min_step), _STEPS[-1])


def _round_up(at: float, step: float, local: ToLocalTime) -> float:
    """Return the next time that is a multiple of the step in local time.

    The UTC offset there may differ from the one here (daylight saving time): if so, the
    result is corrected by the difference. A time that the clocks skipped is the moment after.
    """
    offset = _utc_offset(at, local)
    rounded = -(-(at + offset) // step) * step - offset
    new_offset = _utc_offset(rounded, local)
    if (rounded + new_offset) % step == 0:
        return rounded
    corrected = rounded + offset - new_offset
    was_skipped = _utc_offset(corrected, local) != new_offset
    return rounded if was_skipped else corrected


def _utc_offset(at: float, local: ToLocalTime) -> float:
    offset = local(at).utcoffset()
    return offset.total_seconds() if offset else 0.0


def _label(at: datetime, step: float) -> str:
    # At midnight the date is shown instead: it says where a new day begins.
    if step < _DAY and (at.hour or at.minute):
        return f"{at:%H:%M}"
    return f"{at:%b} {at.day}"
