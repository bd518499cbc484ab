"""`fleet-smi history`: the heat strip; rows are GPUs, columns are time."""

from collections.abc import Iterable, Iterator, Sequence

from fleet_smi.model.fleet import FleetView, State
from fleet_smi.model.history import NO_USER, GpuOfNode, Strip, StripRun, Strips
from fleet_smi.model.safe_text import natural_sort_key
from fleet_smi.terminal.paint import Paint, Span, align_left, align_right, display_width, truncate
from fleet_smi.terminal.view import time_axis
from fleet_smi.terminal.view.formatting import (
    SEPARATOR,
    STATE_ORDER,
    ToLocalTime,
    format_moment,
    format_percent,
    short_model,
    to_local_time,
)
from fleet_smi.terminal.view.holder import TextVariants, longest_fitting
from fleet_smi.terminal.view.strip_end import StripEnd, strip_end_from_runs, strip_ends

STATE_FILLS: dict[State, str] = {
    "free": "·",
    "leased": "=",
    "busy": "█",
    "held": "▒",
    "ghost": "░",
    "broken": "!",
    "unknown": "?",
}
_EDGE = "│"
_GAP = "  "
_INDEX, _LOAD = 2, 4
_ROOMY = 6  # columns, for a name and an edge not to make a run unreadable
_LEAST_NAME = 6  # letters, for what is left of a name to say whose it is
_WIDE, _WIDEST = 110, 160
_LEAST_COLUMNS = 8
_Line = list[Span]


def strip_columns(columns: int) -> int:
    """How many columns of time there are on a terminal so wide."""
    model, words = _places(columns)
    return max(_LEAST_COLUMNS, columns - _before(model) - 2 * len(_GAP) - _LOAD - words)


def render(
    strips: Strips,
    end_view: FleetView,
    columns: int,
    paint: Paint,
    *,
    now: float,
    local: ToLocalTime = to_local_time,
) -> str:
    """The whole screen, ending in a newline; no line is wider than `columns`.

    `then` is the fleet at the moment at which the strips end.
    """
    page = _Page(strips, end_view, columns, now, local)
    return "".join(paint.line(line, columns) + "\n" for line in page.lines())


def _places(columns: int) -> tuple[int, int]:
    """How wide the model is, and what stands behind the strip."""
    if columns < _WIDE:
        return 8, 14
    return (10, 20) if columns < _WIDEST else (14, 24)


def _before(model: int) -> int:
    return _INDEX + 1 + model + len(_GAP)


class _Page:
    """A strip on a terminal of some width."""

    def __init__(
        self, strips: Strips, then: FleetView, columns: int, now: float, local: ToLocalTime
    ) -> None:
        self._strips = strips
        self._ends = strip_ends(then)
        self._model, self._words = _places(columns)
        self._room = strip_columns(columns)
        self._loads = any(run.busy_percent is not None for row in strips.rows for run in row.runs)
        if not self._loads:
            self._words += _LOAD + len(_GAP)
        self._now = now
        self._local = local

    def lines(self) -> Iterator[_Line]:
        rows = sorted(self._strips.rows, key=_order)
        if not rows:
            yield [("Nothing was written down of that time, or no GPU matches.", None)]
            return
        named = ""
        words = self._range()
        for row in rows:
            if row.gpu.node_id != named:
                yield self._heading(row.gpu.node, words)
                named, words = row.gpu.node_id, ""
            yield self._row(row)
        yield []
        yield _legend(rows, self._strips)

    def _range(self) -> str:
        strips = self._strips
        return time_axis.range_label(strips.start, strips.end, self._now, self._local)

    def _heading(self, node: str, words: str) -> _Line:
        strips, before = self._strips, _before(self._model)
        called = f", {words}" if words else ""
        name = truncate(node, before + self._room // 2 - display_width(called))
        taken = max(0, display_width(name) + display_width(called) - before)
        labels = time_axis.ticks(strips.start, strips.end, self._room, self._local)
        last = "now" if self._goes_on else ""
        axis = time_axis.axis_line(labels, " " * taken, self._room, last)[taken:]
        pad = " " * (before - display_width(name) - display_width(called))
        return [(name, "title"), (called + pad, None), (axis, "head")]

    @property
    def _goes_on(self) -> bool:
        return abs(self._now - self._strips.end) < max(60.0, self._column_seconds)

    @property
    def _column_seconds(self) -> float:
        return (self._strips.end - self._strips.start) / self._strips.columns

    def _row(self, row: Strip) -> _Line:
        spans = list(self._cells(row.runs))
        taken = sum(display_width(text) for text, _ in spans)
        return [
            (_called(row.gpu, self._model), "dim" if row.gpu.parent else None),
            *spans,
            (" " * (self._room - taken) + _GAP, None),
            *self._at_the_end(row),
        ]

    def _cells(self, runs: Sequence[StripRun]) -> Iterator[Span]:
        before: StripRun | None = None
        at = 0
        for run in runs:
            first, last = self._column(run.start), self._column(run.end)
            if last <= max(first, at):
                continue
            if first > at:
                yield " " * (first - at), None
                before = None
            yield _cells(run, last - max(first, at), before), run.state
            before, at = run, last

    def _column(self, at: float) -> int:
        strips = self._strips
        share = (at - strips.start) / (strips.end - strips.start)
        return max(0, min(self._room, round(share * self._room)))

    def _at_the_end(self, row: Strip) -> _Line:
        """How it stood when the strip ends, and since when."""
        told = self._ends.get((row.gpu.node_id, row.gpu.uuid))
        end = told or strip_end_from_runs(row.runs, self._strips)
        if end is None:
            return [self._load(""), ("not heard", "unknown")]
        load = format_percent(end.busy_percent) if end.user != NO_USER else ""
        return [self._load(load), (self._state(end), end.state or "warn")]

    def _load(self, load: str) -> Span:
        """The column of the loads; where none is known, there is none."""
        return (align_right(load, _LOAD) + _GAP if self._loads else "", None)

    def _state(self, end: StripEnd) -> str:
        """The state, whose it is, and since when where that is in sight, as there is room."""
        state: str = end.state or "silent"
        words: TextVariants = (state,)
        if end.since is not None and end.since > self._strips.start:
            words = self._since(state, end.since)
        named = [f"{one}{SEPARATOR}{end.user}" for one in (words[0], state) if end.user != NO_USER]
        return longest_fitting((*named, *words), self._words)

    def _since(self, word: str, at: float) -> TextVariants:
        when = format_moment(at, self._now, self._local)
        return f"{word} {when}", f"{word} {when.partition(' ')[0]}", word


def _order(row: Strip) -> tuple[object, ...]:
    gpu = row.gpu
    return natural_sort_key(gpu.node), gpu.node_id, gpu.index, gpu.parent is not None, gpu.uuid


def _called(gpu: GpuOfNode, model_width: int) -> str:
    words = short_model(gpu.model or "GPU").split()
    while len(words) > 1 and display_width(" ".join(words)) > model_width:
        words.pop()
    index = "└" if gpu.parent else str(gpu.index)
    return f"{align_right(index, _INDEX)} {align_left(' '.join(words), model_width)}{_GAP}"


def _cells(run: StripRun, columns: int, before: StripRun | None) -> str:
    """One run: its edge, whose it is and how busy where there is room, then what fills it."""
    roomy = columns >= _ROOMY
    same = before is not None and before.user == run.user != NO_USER
    alike = before is not None and before.state == run.state and columns > 1
    edge = _EDGE if before is not None and not same and (roomy or alike) else ""
    name = _name(run, columns - len(edge) - 1) if roomy and not same else ""
    return edge + name + STATE_FILLS[run.state] * (columns - len(edge) - display_width(name))


def _name(run: StripRun, room: int) -> str:
    """Whose it is and how busy it was, with a blank behind it, in at most so many columns."""
    if run.user == NO_USER:
        return ""
    others = f"+{run.others}" if run.others else ""
    load = "" if run.busy_percent is None else f" {run.busy_percent:.0f}"
    for words in (f"{run.user}{others}{load} ", f"{run.user}{others} ", f"{run.user} "):
        if display_width(words) <= room:
            return truncate(words, room)
    return truncate(run.user, room) if room >= min(_LEAST_NAME, display_width(run.user)) else ""


def _legend(rows: Iterable[Strip], strips: Strips) -> _Line:
    """What the characters on this screen mean."""
    rows = tuple(rows)
    seen = {run.state for row in rows for run in row.runs}
    spans: _Line = []
    for state in STATE_ORDER:
        if state in seen:
            spans += [(STATE_FILLS[state], state), (f" {state}  ", "dim")]
    heard = sum(run.end - run.start for row in rows for run in row.runs)
    if heard < 0.999 * len(rows) * (strips.end - strips.start):
        spans.append(("blank: not heard", "dim"))
    return spans
