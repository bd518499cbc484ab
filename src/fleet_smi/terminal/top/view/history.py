"""The history below the rows: the whole fleet as a ribbon, the chosen node as strips, a cursor."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from fleet_smi.model.fleet import FleetView
from fleet_smi.model.history import Ribbon
from fleet_smi.terminal.paint import display_width
from fleet_smi.terminal.top.nodes import EMPTY_SUMMARY
from fleet_smi.terminal.top.spans import TopLine, TopSpan, fit
from fleet_smi.terminal.top.view.bars import sparkline
from fleet_smi.terminal.top.view.detail import rule
from fleet_smi.terminal.view.formatting import STATE_ORDER, format_moment
from fleet_smi.terminal.view.history_strip import strip_columns, strip_lines, strip_offset

if TYPE_CHECKING:
    from fleet_smi.terminal.top.frame import Frame

_MAX_STRIPS = 10


def history_lines(frame: "Frame") -> list[TopLine]:
    """Return the ribbon and the strips, with a cursor at the moment that is shown."""
    state, data, columns = frame.state, frame.data, frame.columns
    strips, ribbon = data.strips, data.ribbon
    if strips is None or ribbon is None:
        return [rule([("history", "title")], columns), [(" loading …", "dim")]]
    offset, width = strip_offset(columns), strip_columns(columns)
    at = state.cursor if state.cursor is not None else strips.end
    share = (at - strips.start) / max(1.0, strips.end - strips.start)
    column = offset + max(0, min(width - 1, int(share * width)))
    moment = format_moment(at, frame.live_now, frame.local) if state.cursor is not None else "live"
    lines = [rule([("history", "title"), (f"  cursor: {moment}", None)], columns)]
    # The end of each strip is read from the strips themselves: the view has other times.
    nobody = FleetView(taken_at=strips.end, summary=EMPTY_SUMMARY, nodes=())
    shown = [*strip_lines(strips, nobody, columns, now=frame.live_now, local=frame.local)]
    heading, *rows = shown
    body = [row for row in rows if row][: _MAX_STRIPS + 1]
    lines.append(_with_cursor(_ribbon_line(ribbon, offset, width), column, columns))
    lines += [_with_cursor(line, column, columns) for line in (heading, *body[:-1])]
    return [*lines, fit([(" ", None), *body[-1]] if body else [("", None)], columns)]


def _ribbon_line(ribbon: Ribbon, offset: int, width: int) -> TopLine:
    """Return the share of GPUs in use over time, one column per slot."""
    points = ribbon.moments
    if not points:
        return [(" no history of the fleet", "dim")]
    span = max(1.0, ribbon.end - ribbon.start)
    slots: list[float | None] = [None] * width
    for point in points:
        at = max(0, min(width - 1, int((point.at - ribbon.start) / span * width)))
        total = sum([point.gpus.get(state, 0.0) for state in STATE_ORDER])
        slots[at] = point.gpus.get("busy", 0.0) / total if total else None
    _fill_gaps(slots)
    return [
        (" fleet busy".ljust(offset)[:offset], "dim"),
        (sparkline(slots, width, 1.0), "busy"),
    ]


def _fill_gaps(slots: list[float | None]) -> None:
    """Repeat a value in the empty slots after it, where points are wider than a slot."""
    known = [at for at, value in enumerate(slots) if value is not None]
    if len(known) < 2:
        return
    step = max(1, min([b - a for a, b in pairwise(known)]))
    for at in known:
        for later in range(at + 1, min(len(slots), at + 2 * step)):
            if slots[later] is not None:
                break
            slots[later] = slots[at]


def _with_cursor(line: Sequence[TopSpan], column: int, columns: int) -> TopLine:
    """Return the line with the character at this column as the cursor."""
    result: TopLine = []
    at = 0
    for text, role in fit(line, columns):
        width = display_width(text)
        # A wide letter has no half that could be marked.
        if at <= column < at + width and width == len(text):
            inside = column - at
            result += [
                (text[:inside], role),
                (text[inside], "cursor"),
                (text[inside + 1 :], role),
            ]
        else:
            result.append((text, role))
        at += width
    return [span for span in result if span[0]]
