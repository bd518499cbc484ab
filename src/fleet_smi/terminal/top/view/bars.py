"""Bars and sparklines of one row."""

from collections.abc import Sequence

from fleet_smi.terminal.top.spans import TopLine

_STEPS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float | None], width: int, most: float | None) -> str:
    """Return the last values as blocks, one column each; what was not measured is blank.

    `most` is the value of a full block; `None` means the largest of the values.
    """
    shown = values[-width:] if width > 0 else []
    top = most or max([value for value in shown if value is not None], default=0.0)
    return "".join([_block(value, top) for value in shown]).rjust(max(0, width))


def _block(value: float | None, most: float) -> str:
    if value is None:
        return " "
    if most <= 0:
        return _STEPS[0]
    share = min(1.0, max(0.0, value / most))
    return _STEPS[min(len(_STEPS) - 1, int(share * len(_STEPS)))]


def bar(share: float | None, width: int, role: str) -> TopLine:
    """Return a horizontal bar; empty where the share is not known."""
    if share is None:
        return [(" " * width, None)]
    filled = round(min(1.0, max(0.0, share)) * width)
    return [("▓" * filled, role), ("░" * (width - filled), "bar")]
