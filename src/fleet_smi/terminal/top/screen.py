"""The live screen as lines of text, exactly as large as the terminal."""

from collections.abc import Callable
from typing import NamedTuple

from fleet_smi.model.units import format_elapsed
from fleet_smi.terminal.top import completion
from fleet_smi.terminal.top.fleet_page import fleet_lines, history_page_lines
from fleet_smi.terminal.top.frame import Frame, exactly
from fleet_smi.terminal.top.node_page import node_page_lines
from fleet_smi.terminal.top.spans import TopLine, fit
from fleet_smi.terminal.top.state import ScreenState, TopData, chosen_item
from fleet_smi.terminal.top.view import filter_line, key_help, totals
from fleet_smi.terminal.top.view.lists import people_lines, queue_lines
from fleet_smi.terminal.view.formatting import ToLocalTime, format_moment, to_local_time

_BAR_ROWS = 30  # the bar of all GPUs is shown from this height on
_MIN_COLUMNS, _MIN_ROWS = 20, 4
_STALE_SECONDS = 10.0


class Screen(NamedTuple):
    """A picture of the terminal, and the frame that knows what is where."""

    lines: list[TopLine]
    frame: Frame


def render(
    state: ScreenState, data: TopData, monotonic: float, local: ToLocalTime = to_local_time
) -> Screen:
    """Return the screen at this time of the monotonic clock."""
    frame = Frame(state, data, monotonic, local)
    columns, rows = state.columns, state.rows
    if columns < _MIN_COLUMNS or rows < _MIN_ROWS:
        return Screen(exactly([[(_smallest(data), "free")]], columns, rows), frame)
    head, foot = _head(frame), _foot(frame)
    room = rows - len(head) - 1
    if state.is_help:
        body = key_help.help_lines(columns, room)
    else:
        body = _BODIES[state.view](frame, room, len(head))
    if state.editor is not None:
        over = _suggestions(frame)
        body = [*over, *body[len(over) :]]
    return Screen([*exactly([*head, *body], columns, rows - 1), foot], frame)


def _smallest(data: TopData) -> str:
    return f"{data.fleet.summary.free} free" if data.fleet.is_loaded else "…"


def _suggestions(frame: Frame) -> list[TopLine]:
    state = frame.state
    assert state.editor is not None  # noqa: S101  # the caller checks it
    found = completion.suggest(frame.data.words, state.editor.text, filter_line.MAX_SUGGESTIONS)
    return filter_line.suggestion_lines(found, state.suggestion_at, state.columns)


def _head(frame: Frame) -> list[TopLine]:
    """Return the totals, what is wrong or past, and the filter."""
    state, fleet, columns = frame.state, frame.data.fleet, frame.columns
    age = frame.now - fleet.taken_at if fleet.is_loaded and state.at is None else None
    summary, source = fleet.summary, frame.data.source
    lines = [totals.totals_line(summary, source, age, fleet.power_watts, columns)]
    if (notice := _notice(frame)) is not None:
        lines.append(totals.notice_line(notice, columns))
    if state.rows >= _BAR_ROWS and len(fleet) > 1:
        lines.append(totals.state_bar(summary, columns))
    if state.view != "node" or state.editor is not None or state.filter_text:
        order = f"{_position(frame)}sort: {state.sort}"
        arrangement, text = frame.data.arrangement, state.filter_text
        lines.append(
            filter_line.filter_line(arrangement, text, state.editor, order, len(fleet), columns)
        )
    return lines


def _position(frame: Frame) -> str:
    positions = frame.data.arrangement.positions
    item = chosen_item(frame.state, frame.data)
    if item is None or len(positions) < 2:
        return ""
    return f"{positions.get(item.node_id, 0) + 1} of {len(positions)}  "


def _notice(frame: Frame) -> str | None:
    state, data, now = frame.state, frame.data, frame.live_now
    age = format_elapsed(now - data.live.taken_at)
    if data.trouble is not None:
        old = f"data is {age} old: " if data.live.is_loaded else ""
        return f"{old}{data.trouble}; retrying"
    if state.at is not None:
        moment = format_moment(state.at, now, frame.local)
        return f"As of {moment}, {format_elapsed(now - state.at)} ago; l is live again"
    if data.live.is_loaded and now - data.live.taken_at > _STALE_SECONDS:
        return f"no news for {age}"
    return None


def _foot(frame: Frame) -> TopLine:
    state, columns = frame.state, frame.columns
    if state.question is not None:
        return fit([(f" {state.question.text} ", "notice"), ("  y / n", "key")], columns)
    if state.message:
        return fit([(f" {state.message}", "warn")], columns)
    line, places = key_help.key_line(_keys(state, frame.data), columns)
    frame.keys = places
    return line


def _keys(state: ScreenState, data: TopData) -> key_help.Keys:
    if state.editor is not None:
        return key_help.FILTER_KEYS
    if state.view in ("people", "queue") or state.is_help:
        return key_help.TEXT_KEYS
    if state.view == "history":
        return key_help.HISTORY_KEYS
    if state.pane == "processes":
        return key_help.PROCESS_KEYS
    keys = key_help.NODE_KEYS if state.view == "node" else key_help.FLEET_KEYS
    hidden = {*([] if data.has_history else ["y"]), *(["Q"] if data.queue is None else [])}
    if len(data.fleet) < 2:
        hidden.add("Esc")
    return [pair for pair in keys if pair[0] not in hidden]


def _scrolled_text(frame: Frame, lines: list[TopLine], rows: int) -> list[TopLine]:
    state = frame.state
    state.first_line = max(0, min(state.first_line, len(lines) - rows))
    return lines[state.first_line : state.first_line + rows]


def _people(frame: Frame, rows: int, _: int) -> list[TopLine]:
    lines = people_lines(frame.data.people, frame.columns, frame.local)
    return _scrolled_text(frame, lines, rows)


def _queue(frame: Frame, rows: int, _: int) -> list[TopLine]:
    return _scrolled_text(frame, queue_lines(frame.data.queue, frame.columns), rows)


_BODIES: dict[str, Callable[[Frame, int, int], list[TopLine]]] = {
    "fleet": fleet_lines,
    "node": node_page_lines,
    "people": _people,
    "queue": _queue,
    "history": history_page_lines,
}
